"""Run the command line ``lenet-trt VERB``: each verb has a folder with its options."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import warnings
from collections.abc import Sequence

from lenet_trt import __version__
from lenet_trt.errors import LenetTrtError, LenetTrtWarning, UsageError

# verb -> summary; lenet_trt/VERB/__main__.py has add_arguments() and command()
VERBS = {
    "train": "train LeNet-5 on MNIST and write its weights",
    "export": "write LeNet-5, the MatMul or the Conv case as ONNX",
    "fuse": "put plugin nodes into an ONNX file where kernels compute the same",
    "quantize": "put int8 or float8 into an ONNX file, calibrated on training images",
    "build": "build a TensorRT engine from ONNX",
    "profile": "trace a network, or read a trace: what the GPU and the host did, and when",
    "run": "classify images with an engine, an ONNX or a fused ONNX file",
    "bench": "measure kernels, networks and backends: tables, records and pictures",
    "compare": "time engines of one network in turns by trtexec, and compare their results",
    "roofline": "compute the work of each node and the time that the hardware needs for it",
    "report": "show on one page where the time of a traced run went",
    "optimize": "replace layers that lose time by plugins, and prove the gain",
    "plugins": "list the kernels: what each replaces, its types, targets and gain",
    "tune": "time the variants of the kernels on the GPU here, and use the fastest from then on",
    "check": "say whether a kernel is what its declaration says",
    "library": "compile the C++ plugin library that runs our kernels in TensorRT",
    "verify": "build, run, compare and time every kernel with your TensorRT and GPU, and write one report to share",
    "deploy": "write the files with which a server runs a network, such as Triton's model repository",
    "inspect": "say what is in an engine or an ONNX file",
    "doctor": "say what can run on this machine and what to install",
}


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show defaults in the help, except None and False."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        silent = action.default in (None, False, [], "") or "default:" in (action.help or "")
        return action.help if silent else super()._get_help_string(action)


def parser_for(verb: str) -> argparse.ArgumentParser:
    """Build the argument parser of one verb, importing that verb's module alone."""
    module = importlib.import_module(f"lenet_trt.{verb}.__main__")
    summary = VERBS[verb]
    parser = argparse.ArgumentParser(
        prog=f"lenet-trt {verb}",
        description=summary[0].upper() + summary[1:] + ".",
        formatter_class=_HelpFormatter,
    )
    module.add_arguments(parser)
    parser.set_defaults(command=module.command)
    return parser


_python_form = warnings.formatwarning


def _form_of_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Write a warning of ours without the line of the program that gave it."""
    if issubclass(category, LenetTrtWarning):
        return f"warning: {message}\n"
    return _python_form(message, category, filename, lineno, line)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status: 0, 1 (failed), 2 (bad usage) or 130 (interrupted)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stderr is None:  # closed: what is said there goes nowhere, and no other file gets its number
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    if sys.stdout is None:
        print("lenet-trt: error: standard output is closed: let it go to a file, or to /dev/null", file=sys.stderr)
        return 1
    if not arguments or arguments[0] not in VERBS:
        return _top_level(arguments)
    if hasattr(sys.stdout, "reconfigure"):  # a name that the terminal's encoding lacks is shown escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    warnings.formatwarning = _form_of_warning
    try:
        _check_none_is_empty(arguments)
        parsed = parser_for(arguments[0]).parse_args(arguments[1:])
        parsed.command_line = ["lenet-trt", *arguments]
        status = parsed.command(parsed)
        sys.stdout.flush()
        return int(status)
    except LenetTrtError as error:
        print(f"lenet-trt {arguments[0]}: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"lenet-trt {arguments[0]}: interrupted; nothing was changed", file=sys.stderr)
        return 130
    except MemoryError as error:
        print(f"lenet-trt {arguments[0]}: error: there is not enough memory: {error or 'none left'}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output (head, less) has gone
        _drop_output()
        return 1
    except OSError as error:  # such as a full disk under our output
        about = f"{error.filename}: " if error.filename else ""
        print(f"lenet-trt {arguments[0]}: error: {about}{error.strerror or error}", file=sys.stderr)
        _drop_output()
        return 1


def _check_none_is_empty(arguments: Sequence[str]) -> None:
    """Refuse an empty name or value, such as a shell makes of an unset variable: as a path it would be this folder."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if not argument or re.fullmatch(r"--[\w-]+=", argument):
            place = argument or f"the argument after {before}"
            raise UsageError(f"{place} is empty: give it a value, or leave it out")


def _drop_output() -> None:
    """Send standard output nowhere, so that Python does not try to write it again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _top_level(arguments: list[str]) -> int:
    width = max(map(len, VERBS))
    parser = argparse.ArgumentParser(
        prog="lenet-trt",
        description="Find where TensorRT loses time, and replace these layers by CUDA kernels. LeNet-5 is the example.",
        epilog="verbs:\n"
        + "\n".join(f"  {verb:<{width}}  {summary}" for verb, summary in VERBS.items())
        + "\n\nlenet-trt VERB --help says more; python -m lenet_trt VERB is the same.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lenet-trt {__version__}")
    parser.add_argument("verb", metavar="VERB", choices=list(VERBS))
    try:
        parser.parse_args(arguments[:1])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
