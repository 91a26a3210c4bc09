"""Read the options of ``check``: compare a kernel with its declaration, on this machine."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from lenet_trt.check.gpu_checks import CHECKS, compile_calls, run_check
from lenet_trt.child import child_environment
from lenet_trt.cuda.compile import architectures, compile_each, compile_variant, sm_of
from lenet_trt.cuda.driver import context_lost, current_context
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.kernel.bind import Bound, Specialized
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.examples import (
    SEED,
    bounds,
    cases,
    expected_outputs,
    kernel_inputs,
    plain_inputs,
)
from lenet_trt.kernel.registry import kernel as kernel_named
from lenet_trt.kernel.variants import OLDEST_SM, Variant
from lenet_trt.schema import json_text

SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
ALWAYS = ("examples", "patterns", "compile", "serialize")
_QUICK_FLOPS = 10**8
_SHOWN_FAILURES = 5
_SHOWN_LINES = 12
_SANITIZER_FOUND = 86


@dataclass(frozen=True)
class Build:
    """Name one module to compile; one with tensor maps also as it is where no map can be passed."""

    specialized: Specialized
    variant: Variant
    target: str
    maps: bool = True

    def __str__(self) -> str:
        without = "" if self.maps else " without maps"
        return f"{self.variant.name} {self.specialized.types.name} {self.target}{without}"


@dataclass(frozen=True)
class Outcome:
    """Hold the result of a check: status "passed", "failed" or "skipped", and failures as (what, why)."""

    kernel: str
    check: str
    status: str
    detail: str
    failures: tuple[tuple[str, str], ...] = field(default=())


def check_kernel(
    kernel: Kernel,
    only: Sequence[str] = (),
    case_filter: str = "",
    targets: Sequence[str] = (),
    quick: bool = False,
    progress: bool = False,
) -> Iterable[Outcome]:
    """Run the checks one after the other and yield each outcome.

    ``only`` names checks (empty: all), ``case_filter`` is a part of a case's name, ``quick`` leaves
    out the large examples. Checks on a GPU are skipped, with the reason, where there is none.
    ``progress``: see ``compile_each``.
    """
    wanted = only or (*ALWAYS, *CHECKS)
    if "examples" in wanted:
        yield _check_examples(kernel)
    if "patterns" in wanted:
        yield _check_patterns(kernel)
    if "compile" in wanted:
        yield _check_compile(kernel, targets or all_targets(), progress)
    if "serialize" in wanted:
        yield _check_serialize(kernel)
    gpu_checks = [name for name in CHECKS if name in wanted]
    try:
        sm = current_context().sm if gpu_checks else 0
    except LenetTrtError as error:
        for name in gpu_checks:
            yield Outcome(kernel.name, name, "skipped", str(error))
        return
    chosen = [case for case in cases(kernel, sm) if case_filter in str(case)]
    if quick:
        chosen = [case for case in chosen if case.bound.flops <= _QUICK_FLOPS]
    compile_calls(chosen, sm, progress)
    lost = ""
    for name in gpu_checks:
        if lost:
            yield Outcome(kernel.name, name, "skipped", lost)
            continue
        yield _collect(kernel, name, chosen, lambda case, name=name: run_check(name, case), f"calls on sm_{sm}")
        if reason := context_lost():
            lost = f"a call above ended with {reason}, and nothing runs in this process after it: mend that call first"


def all_targets() -> tuple[str, ...]:
    """Return a target for every architecture, and the PTX that newer architectures compile."""
    return (*(f"sm_{sm}" for sm in architectures()), f"compute_{OLDEST_SM}")


def sanitize(kernel: Kernel, tools: Sequence[str], case_filter: str = "") -> Iterable[Outcome]:
    """Check the values of the small examples under NVIDIA's compute-sanitizer, with one tool at a time."""
    program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    for tool in tools:
        name = f"sanitizer {tool}"
        if program is None:
            reason = "compute-sanitizer is not on the PATH: install the CUDA toolkit, which has it"
            yield Outcome(kernel.name, name, "skipped", reason)
            continue
        again = [sys.executable, "-m", "lenet_trt.check", kernel.name, "--only", "values", "--quick"]
        again += ["--case", case_filter] if case_filter else []
        command = [program, "--tool", tool, "--error-exitcode", str(_SANITIZER_FOUND), *again]
        done = subprocess.run(command, capture_output=True, text=True, env=child_environment())
        if done.returncode == 0:
            yield Outcome(kernel.name, name, "passed", "nothing found in the small examples")
        else:
            # The checks' own report, where they failed too, then the tool's first errors.
            lines = (done.stdout + done.stderr).splitlines()
            lines.sort(key=lambda line: line.startswith("========="))
            log = "\n".join(lines)
            yield Outcome(kernel.name, name, "failed", f"again: {shlex.join(command)}", ((tool, log),))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="kernels to check (lenet-trt plugins lists them)")
    parser.add_argument(
        "--only", metavar="CHECK,...", default="", help=f"run only these checks, of {', '.join((*ALWAYS, *CHECKS))}"
    )
    parser.add_argument("--case", metavar="TEXT", default="", help="only calls whose name contains TEXT")
    parser.add_argument(
        "--targets", metavar="sm_XX,...", default="", help="architectures to compile for (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="leave out the large examples")
    parser.add_argument(
        "--sanitize",
        nargs="?",
        const=",".join(SANITIZER_TOOLS),
        default="",
        metavar="TOOL,...",
        help=f"run the small examples under compute-sanitizer ({', '.join(SANITIZER_TOOLS)}) instead",
    )
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")


def command(arguments: argparse.Namespace) -> int:
    """Check the kernels and print the outcomes; the status is 1 if a check failed."""
    only = _choices(arguments.only, (*ALWAYS, *CHECKS), "--only")
    tools = _choices(arguments.sanitize, SANITIZER_TOOLS, "--sanitize")
    targets = tuple(filter(None, arguments.targets.split(",")))
    for target in targets:
        sm_of(target)
    outcomes = []
    for kernel in [kernel_named(name) for name in arguments.names]:
        found = (
            sanitize(kernel, tools, arguments.case)
            if tools
            else check_kernel(kernel, only, arguments.case, targets, arguments.quick, sys.stderr.isatty())
        )
        for outcome in found:
            outcomes.append(outcome)
            if not arguments.json:
                print(_text(outcome), flush=True)
    if arguments.json:
        print(json_text([asdict(outcome) for outcome in outcomes]))
    return int(any(outcome.status == "failed" for outcome in outcomes))


def _check_examples(kernel: Kernel) -> Outcome:
    failures = []
    runtime = [axis.name for axis in kernel.axes if not axis.static]
    for name in runtime[:1]:
        if not any(example[name] == 1 for example in kernel.examples):
            failures.append((name, f"no example has {name} = 1"))
        if not any(example[name] > 1 and example[name] % 2 for example in kernel.examples):
            failures.append((name, f"no example has an odd {name}"))
    seen = {(case.variant.name, case.bound.types.name) for case in cases(kernel)}
    for variant in kernel.variants:
        for types in variant.types or [types.name for types in kernel.types]:
            if (variant.name, types) not in seen:
                failures.append((f"{variant.name} {types}", "no example fits it"))
    failures += [("reference", problem) for problem in _reference_problems(kernel)]
    detail = f"{len(kernel.examples)} examples reach {len(seen)} of the variants and types"
    return Outcome(kernel.name, "examples", "failed" if failures else "passed", detail, tuple(failures))


def _reference_problems(kernel: Kernel) -> Iterable[str]:
    """Try reference and packing on the smallest example with every choice of attributes; return what fails."""
    smallest: dict[tuple[tuple[str, object], ...], Bound] = {}
    for bound in bounds(kernel):
        least = smallest.setdefault(bound.specialized.attributes, bound)
        if bound.flops < least.flops:
            smallest[bound.specialized.attributes] = bound
    problems = []
    for bound in smallest.values():
        plain = plain_inputs(bound, np.random.default_rng(SEED))
        for computed in (kernel_inputs, expected_outputs):
            try:
                computed(bound, plain)
            except LenetTrtError as error:
                problems.append(str(error))
    return dict.fromkeys(problems)


def _check_patterns(kernel: Kernel) -> Outcome:
    """Check that fusing finds the kernel's patterns, and that the fallback function computes the reference."""
    from lenet_trt.check.pattern_check import pattern_problems, small_bounds

    if not kernel.patterns:
        return Outcome(kernel.name, "patterns", "skipped", "it has none: fuse cannot put it into a model")
    tried = small_bounds(bounds(kernel))
    failures = tuple(("fused", problem) for problem in pattern_problems(tried))
    detail = f"{len(tried)} calls as ONNX models, fused, in ONNX Runtime"
    return Outcome(kernel.name, "patterns", "failed" if failures else "passed", detail, failures)


def _check_compile(kernel: Kernel, targets: Sequence[str], progress: bool) -> Outcome:
    fitting = dict.fromkeys((case.bound.specialized, case.variant) for case in cases(kernel))
    builds = [
        Build(specialized, part, target, maps)
        for specialized, variant in fitting
        for target in targets
        if specialized.supports(variant, sm_of(target))
        for part in variant.parts
        for maps in ((True, False) if part.launch.maps else (True,))
    ]

    def compile_one(build: Build) -> str | None:
        try:
            compile_variant(build.specialized, build.variant, build.target, maps=build.maps)
        except LenetTrtError as error:
            return str(error)
        return None

    compiled = [done.result() for done in compile_each(compile_one, builds, progress=progress)]
    return _outcome(kernel, "compile", builds, compiled, f"modules for {', '.join(targets)}")


def _check_serialize(kernel: Kernel) -> Outcome:
    """Check that a TensorRT plugin made from stored attributes has the same attributes."""
    from lenet_trt.kernel.pattern import DOMAIN
    from lenet_trt.tensorrt import flavors as flavor
    from lenet_trt.tensorrt.routes.python import plugin_fields, register_creators, stored_arrays

    try:
        here = flavor.select()
    except LenetTrtError as error:
        return Outcome(kernel.name, "serialize", "skipped", str(error))
    if not here.can.python_plugins:
        return Outcome(kernel.name, "serialize", "skipped", f"{here.product} has no plugins in Python")
    trt = here.trt
    register_creators(trt, [kernel])
    creator = trt.get_plugin_registry().get_creator(kernel.name, kernel.version, DOMAIN)

    def round_trip(specialized: Specialized) -> str | None:
        wanted = dict(specialized.attributes)
        arrays = stored_arrays(kernel, wanted)
        built = creator.create_plugin(kernel.name, plugin_fields(trt, kernel, arrays), trt.TensorRTPhase.BUILD)
        copy = built.clone()  # which holds what its fields point to
        stored = copy.get_fields_to_serialize()
        loaded = creator.create_plugin(kernel.name, stored, trt.TensorRTPhase.RUNTIME)
        return None if loaded.attributes == wanted else f"stored {wanted}, and {loaded.attributes} came back"

    chosen = list({specialized.attributes: specialized for specialized in _specializations(kernel)}.values())
    return _collect(kernel, "serialize", chosen, round_trip, f"sets of attributes through {trt.__name__}")


def _specializations(kernel: Kernel) -> list[Specialized]:
    return list(dict.fromkeys(bound.specialized for bound in bounds(kernel)))


def _collect(
    kernel: Kernel, check: str, subjects: Sequence[object], run: Callable[..., str | None], what: str
) -> Outcome:
    return _outcome(kernel, check, subjects, [run(subject) for subject in subjects], what)


def _outcome(
    kernel: Kernel, check: str, subjects: Sequence[object], problems: Sequence[str | None], what: str
) -> Outcome:
    """Return the outcome of a check that found a problem, or None, for each of the subjects."""
    if not subjects:
        return Outcome(kernel.name, check, "skipped", f"0 {what}")
    failures = tuple((str(s), problem) for s, problem in zip(subjects, problems, strict=True) if problem)
    status = "failed" if failures else "passed"
    return Outcome(kernel.name, check, status, f"{len(subjects) - len(failures)} of {len(subjects)} {what}", failures)


def _text(outcome: Outcome) -> str:
    lines = [f"{outcome.kernel}  {outcome.check:<20}  {outcome.status:<8}  {outcome.detail}"]
    for what, why in outcome.failures[:_SHOWN_FAILURES]:
        lines += [f"    {what}: {line}" if i == 0 else f"      {line}" for i, line in enumerate(_shortened(why))]
        if outcome.check in CHECKS:
            again = ["lenet-trt", "check", outcome.kernel, "--only", outcome.check, "--case", what]
            lines.append(f"      again: {shlex.join(again)}")
    if len(outcome.failures) > _SHOWN_FAILURES:
        lines.append(f"    and {len(outcome.failures) - _SHOWN_FAILURES} more (--json lists them)")
    return "\n".join(lines)


def _shortened(text: str) -> list[str]:
    lines = text.splitlines()
    rest = len(lines) - _SHOWN_LINES
    return lines if rest <= 1 else [*lines[:_SHOWN_LINES], f"and {rest} more lines (--json has them)"]


def _choices(text: str, known: Sequence[str], option: str) -> tuple[str, ...]:
    chosen = tuple(filter(None, text.split(",")))
    for name in chosen:
        if name not in known:
            raise UsageError(f"{option} takes {', '.join(known)}, not {name!r}")
    return chosen


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["check", *sys.argv[1:]]))
