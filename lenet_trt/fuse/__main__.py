"""Read the options of ``fuse``, and print what was replaced."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import is_special, report_stream
from lenet_trt.fuse.stage import CHOICES_HELP, fuse
from lenet_trt.onnx_model.plugin_nodes import Refusal, made_by_fuse, plugin_nodes, record, refuse_copy
from lenet_trt.options import add_sizes, sizes_from_text
from lenet_trt.overwrite import Mark, add_overwrite, beside, guard
from lenet_trt.schema import json_text

if TYPE_CHECKING:
    import onnx


NVRTC_MAJORS = ("12", "13")
_JUDGED = (
    "note: auto judges for the GPU of --sm, at the sizes of --batch and --sizes, by what was measured on an H200; "
    "lenet-trt optimize measures on the GPU here; --plugins NAME takes a kernel wherever it fits; --json has every "
    "reason in full"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of the stage."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="the ONNX file")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="where to write (default: MODEL.fused.onnx)")
    parser.add_argument(
        "--fp16",
        action="store_true",
        help="convert a float model to fp16 first, as lenet-trt build --fp16: inputs and outputs keep their types; "
        "trtexec before TensorRT 11 wants --fp16 too (default output: MODEL.fp16.fused.onnx)",
    )
    parser.add_argument(
        "--plugins",
        default="auto",
        metavar="auto|all|none|NAME,...",
        help=f"kernels to use: {CHOICES_HELP}",
    )
    add_sizes(parser)
    parser.add_argument(
        "--batch",
        metavar="MIN:OPT:MAX",
        help="sizes of the first axis of an engine made of it: auto takes what pays at OPT, and the axis stays open; "
        "one number is put into the model, as by --sizes",
    )
    parser.add_argument(
        "--embed",
        action="store_true",
        help="also write a copy for TensorRT (OUT with .trt.onnx) that contains the kernels for the plugin library",
    )
    parser.add_argument(
        "--sm",
        action="append",
        default=[],
        metavar="X.Y",
        help="compute capability of a GPU that runs it, such as 8.6: auto judges for it, and --embed compiles for it; "
        "repeatable (default: the GPU here)",
    )
    parser.add_argument(
        "--nvrtc",
        choices=NVRTC_MAJORS,
        help="with --embed: compile the kernels by the NVRTC of this CUDA; 12 is for drivers from 525 on, which do not "
        "load what CUDA 13's made (default: the one that is installed with lenet-trt, which needs driver 580)",
    )
    parser.add_argument(
        "--tuned",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="with --embed: also the choices that lenet-trt tune -o FILE found on another GPU; repeatable (what was "
        "tuned on the GPU here is used anyway)",
    )
    add_overwrite(parser)
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def command(arguments: argparse.Namespace) -> int:
    """Fuse one file; print what was replaced and the path written."""
    from lenet_trt.onnx_model.fixed_axes import batch_sizes, with_sizes
    from lenet_trt.onnx_model.large import is_large, weights_path, write_model
    from lenet_trt.onnx_model.profiles import axes_text, inputs_of, parse_batch
    from lenet_trt.onnx_model.read import load_model, model_files
    from lenet_trt.tensorrt.library.targets import targets_for

    if arguments.nvrtc and not arguments.embed:
        raise UsageError("--nvrtc chooses the compiler of embedded kernels: add --embed, or leave --nvrtc out")
    if arguments.tuned and not arguments.embed:
        raise UsageError("--tuned gives choices to embedded kernels: add --embed, or leave --tuned out")
    source: Path = arguments.model
    sizes = sizes_from_text(arguments.sizes)
    given = load_model(source, large=True)
    refuse_copy(given, str(source))
    model = with_sizes(given, sizes, arguments.batch)
    usual: dict[str, int] = {}
    if arguments.batch is not None:
        smallest, opt, largest = parse_batch(arguments.batch)
        usual = batch_sizes(model, opt)
        if not usual:
            axes = axes_text(inputs_of(model))
            raise UsageError(
                f"--batch {arguments.batch}: no input has an open first axis with a name ({axes}): leave it out"
            )
        if smallest == largest:
            sizes, model, usual = sizes | usual, with_sizes(model, usual), {}
    if arguments.fp16:
        model = _half(model, source)
    output = arguments.output or source.with_name(f"{source.stem}{'.fp16' * arguments.fp16}.fused.onnx")
    copy = output.with_suffix(".trt.onnx")
    if is_special(output) and (arguments.embed or is_large(model)):
        why = "--embed writes a second file" if arguments.embed else "weights of more than 2 GB are written"
        raise UsageError(f"-o {output}: that is a device or a FIFO, and {why} beside it: name a file")
    outputs: dict[Path, Mark] = dict.fromkeys([output, copy] if arguments.embed else [output], made_by_fuse)
    if not is_special(output):  # packed weights may be more than those of the model
        outputs |= {weights_path(path): beside(path, mark) for path, mark in outputs.items()}
    guard(outputs, model_files(source), arguments.overwrite)
    fused = fuse(model, arguments.plugins, _architectures(arguments.sm), usual)
    record(fused.model, ())  # the mark of this command, where no kernel was taken
    if not arguments.json:
        replaced = {name for done in fused.replacements for name in done.replaced}
        _print_left([entry for entry in fused.refusals if not replaced.issuperset(entry.replaced)])
    if arguments.embed and not plugin_nodes(fused.model):
        raise LenetTrtError(
            f"--embed: --plugins {arguments.plugins} takes no kernel for {', '.join(targets_for(arguments.sm))}: name "
            "kernels with --plugins, or leave --embed out"
        )
    embedded = _embedded(fused.model, arguments.sm, arguments.nvrtc, arguments.tuned) if arguments.embed else None
    told = report_stream(output)
    write_model(output, fused.model)
    tuned = {} if embedded is None else _tuned(embedded)
    if embedded is not None:
        write_model(copy, embedded)
    if arguments.json:
        answer = {
            "output": str(output),
            **({} if embedded is None else {"tensorrt": str(copy), "tuned": tuned}),
            "replacements": [asdict(entry) for entry in fused.replacements],
            "refusals": [asdict(entry) for entry in fused.refusals],
        }
        print(json_text(answer), file=told)
        return 0
    lines = [f"{done.node} ({done.types}) replaces {', '.join(done.replaced)}" for done in fused.replacements]
    if not fused.replacements:
        lines.append(f"no plugin node was added ({len(plugin_nodes(model))} were there before)")
    lines.append(str(output))
    lines += [f"{node} has choices that were tuned on {', '.join(names)}" for node, names in tuned.items()]
    if embedded is not None:
        lines.append(str(copy))
    print("\n".join(lines), file=told)
    return 0


def _architectures(sms: Sequence[str]) -> list[int] | None:
    """Return those that --sm names; None for the GPU here."""
    from lenet_trt.tensorrt.library.targets import targets_for

    return [int(target.removeprefix("sm_")) for target in targets_for(sms)] if sms else None


def _half(model: onnx.ModelProto, source: Path) -> onnx.ModelProto:
    """Return the model in fp16, with the inputs and outputs that it has.

    Raises:
        UsageError: it has plugin nodes, is quantized or has fp16 already.
    """
    from lenet_trt.onnx_model.precision import convert, kinds_of, refuse_plugin_nodes
    from lenet_trt.onnx_model.quantization import quantized_nodes

    refuse_plugin_nodes(model, "fp16")
    if quantized_nodes(model):
        raise UsageError(f"--fp16: {source} is quantized, and its own types are fused: leave --fp16 out")
    if "fp16" in kinds_of(model):
        raise UsageError(f"--fp16: {source} computes in fp16 already: leave --fp16 out")
    return convert(model, "fp16")


def _print_left(refusals: Sequence[Refusal]) -> None:
    """Print for each kernel the first place where it cannot be used, and why; a network has hundreds of such places.

    Kernels of other types are told where there is nothing else to tell.
    """
    by_kernel: dict[str, list[Refusal]] = {}
    for entry in [each for each in refusals if each.brief != ""] or refusals:
        by_kernel.setdefault(entry.kernel, []).append(entry)
    for kernel, (first, *others) in by_kernel.items():
        # A node is refused with its activation and without.
        count = len({entry.replaced[0] for entry in others} - {first.replaced[0]})
        more = f" ({kernel} does not fit {count} other places: --json lists them)" if count else ""
        print(f"left as it is: {', '.join(first.replaced)}: {first.brief or first.reason}{more}", file=sys.stderr)
    if any(entry.brief for entry in refusals):
        print(_JUDGED, file=sys.stderr)


def _embedded(model: onnx.ModelProto, sms: Sequence[str], nvrtc: str | None, tuned: Sequence[Path]) -> onnx.ModelProto:
    """Return the copy for TensorRT."""
    from lenet_trt.cuda.tuning_record import read_tuning_record
    from lenet_trt.tensorrt.library.embed import embedded
    from lenet_trt.tensorrt.library.targets import targets_for

    tunings = [tuning for path in tuned for tuning in read_tuning_record(path).tunings]
    return embedded(model, targets_for(sms), nvrtc, tunings, progress=sys.stderr.isatty())


def _tuned(copy: onnx.ModelProto) -> dict[str, list[str]]:
    """Return for which GPUs each plugin node has tuned choices, by node; those with none are left out."""
    from lenet_trt.tensorrt.library.embed import node_bytes
    from lenet_trt.tensorrt.library.tuned_data import tuned_names

    found = {node.name: tuned_names(data) for node in copy.graph.node if (data := node_bytes(node))}
    return {node: names for node, names in found.items() if names}


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["fuse", *sys.argv[1:]]))
