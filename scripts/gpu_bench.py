"""Time the kernels and their peers on the GPU of this machine, check all of them, and record it.

    python scripts/gpu_bench.py --suite all --sweep -o docs/results/NAME.json
    python scripts/results_page.py docs/results/NAME.json

Needs PyTorch with CUDA, and lenet-trt installed (`pip install -e .`).
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import write_atomic

if TYPE_CHECKING:
    from bench.workload import Workload

SUITES = ("lenet5", "matmul", "conv", "layers", "ladder")
ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str] | None = None) -> int:
    """Run the suites; the table goes to stdout, progress to stderr."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", nargs="+", choices=(*SUITES, "all"), default=["all"], help="what to time (all)")
    parser.add_argument("--sweep", action="store_true", help="LeNet-5 also at n = 2, 4, ... 16384")
    parser.add_argument("--quick", action="store_true", help="few timings, to see that everything runs")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.json", help="write the record")
    parser.add_argument("--commit", help="the commit measured, where git cannot tell it")
    parser.add_argument("--note", help="what a reader of the record should know of it")
    chosen = parser.parse_args(arguments)
    try:
        record = _measure(chosen)
        _report(record, chosen.output)
    except LenetTrtError as error:
        print(f"gpu_bench: {error}", file=sys.stderr)
        return 1
    return 0


def _measure(chosen: argparse.Namespace) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        import torch
    except ImportError as error:
        raise LenetTrtError(f"the peers are PyTorch's, and it is not here ({error}): pip install torch") from error
    from bench import ceilings, peers, record
    from bench.workload import run

    from lenet_trt.compile import source_sha256
    from lenet_trt.environment import commit, environment
    from lenet_trt.registry import kernels
    from lenet_trt.timing import Plan

    here = environment()
    peers.set_up_torch()
    plan = Plan(rounds=2, burst=5) if chosen.quick else Plan()
    make_stream: Any = torch.cuda.Stream  # torch leaves it untyped
    stream = make_stream()
    peaks = ceilings.measure(stream, plan)
    workloads = []
    interrupted = False
    try:
        for workload in _workloads(chosen):
            print(f"[{time.monotonic() - begin:6.1f} s] {workload.name}", file=sys.stderr, flush=True)
            workloads.append(run(workload, peaks, int(str(here["l2_bytes"])), stream, plan))
            torch.cuda.empty_cache()
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: the record has what was measured until here", file=sys.stderr)
    return {
        "schema": record.SCHEMA,
        "command": _command(chosen),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": chosen.commit or commit(ROOT),
        "note": chosen.note,
        "seconds": round(time.monotonic() - begin),
        "interrupted": interrupted,
        "environment": here,
        "kernels": {name: {"version": k.version, "source_sha256": source_sha256(k)} for name, k in kernels().items()},
        "plan": asdict(plan),
        "ceilings": ceilings.recorded(peaks),
        "workloads": workloads,
        "rows": record.gains(workloads, str(here["gpu"])),
    }


def _command(chosen: argparse.Namespace) -> str:
    """What to type to measure the same again."""
    flags = [f"--{name}" for name in ("sweep", "quick") if getattr(chosen, name)]
    output = ["-o", str(chosen.output)] if chosen.output else []
    return shlex.join(["python", "scripts/gpu_bench.py", "--suite", *chosen.suite, *flags, *output])


def _workloads(chosen: argparse.Namespace) -> Iterator[Workload]:
    from bench import ladder, suites

    made: dict[str, Callable[[], Iterable[Workload]]] = {
        "lenet5": suites.lenet5,
        "matmul": suites.matmul,
        "conv": suites.conv,
        "layers": suites.layers,
        "ladder": ladder.ladder,
    }
    names = SUITES if "all" in chosen.suite else [name for name in SUITES if name in chosen.suite]
    for name in names:
        yield from made[name]()
    if chosen.sweep:
        yield from suites.sweep()


def _report(result: dict[str, Any], output: Path | None) -> None:
    from bench import record

    if output is not None:
        write_atomic(output, (json.dumps(result, indent=1) + "\n").encode())
        print(f"wrote {output}", file=sys.stderr)
    peaks, here = result["ceilings"], result["environment"]
    print(record.table(result["workloads"]))
    for failure in record.failures(result["workloads"]):
        print(f"failed: {failure}")
    print(
        f"{here['gpu']}, driver {here['driver']}, NVRTC {here['nvrtc']}, torch {here['packages'].get('torch')}; "
        f"copy {peaks['copy_bytes_per_s'] / 1e12:.2f} TB/s, read {peaks['read_bytes_per_s'] / 1e12:.2f} TB/s, "
        f"fp32 {peaks['fp32_flop_per_s'] / 1e12:.0f} TFLOP/s, fp16 {peaks['fp16_flop_per_s'] / 1e12:.0f} TFLOP/s, "
        f"empty kernel {peaks['launch_us']:.2f} us; {result['seconds']} s"
    )


if __name__ == "__main__":
    sys.exit(main())
