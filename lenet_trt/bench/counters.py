"""Read the hardware counters of each kernel of a program with Nsight Compute, where ``ncu`` is installed.

Source: the options and metric names of Nsight Compute 2025.3 (its command-line help and --query-metrics).
"""

from __future__ import annotations

import csv
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lenet_trt.errors import LenetTrtError

NCU = "ncu"
TIME = "gpu__time_duration.sum"
PEAK = "pct_of_peak_sustained_elapsed"
# Name here -> counter of ncu; all are shares of what the GPU could do while the kernel ran, in percent.
PERCENTAGES = {
    "sm_active_percent": f"sm__cycles_active.avg.{PEAK}",
    "sm_throughput_percent": f"sm__throughput.avg.{PEAK}",
    "dram_percent": f"dram__throughput.avg.{PEAK}",
    "warps_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Counted:
    """Hold one launch of a kernel: ``us`` is its time alone, ``percentages`` has the names above."""

    kernel: str
    us: float
    percentages: Mapping[str, float]


def count_launches(program: Sequence[str]) -> list[Counted]:
    """Run a program under ncu and count its launches between cuProfilerStart and cuProfilerStop, in order.

    Clocks and caches stay as they are.

    Raises:
        LenetTrtError: ncu is not installed, may not read the counters, or the program fails.
    """
    found = shutil.which(NCU)
    if found is None:
        raise LenetTrtError("ncu (Nsight Compute) is not on PATH: it comes with the CUDA toolkit")
    with tempfile.TemporaryDirectory(prefix="lenet-trt-ncu-") as folder:
        log = Path(folder) / "log.csv"
        command = [found, "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log)]
        command += ["--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off"]
        command += ["--metrics", ",".join((TIME, *PERCENTAGES.values())), *program]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LenetTrtError(f"{found} does not run: {error}") from error
        told = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    counted = parse_counts(told)
    if done.returncode != 0 or not counted:
        raise LenetTrtError(f"ncu counts nothing: {_reason(told, done.stderr)}")
    return counted


def parse_counts(text: str) -> list[Counted]:
    """Read what ``ncu --csv --page raw`` wrote: its messages, a heading, a line of units, a line for each launch."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    found = []
    for values in csv.DictReader(lines):
        if not values.get("ID"):  # the units
            continue
        try:
            ns = _number(values[TIME])
            shares = {name: _number(values[metric]) for name, metric in PERCENTAGES.items()}
        except (KeyError, ValueError) as error:
            raise LenetTrtError(f"ncu's row of {values.get('Kernel Name')} has no number: {error}") from error
        found.append(Counted(values["Kernel Name"], ns / 1e3, shares))
    return found


def launches_together(launches: Sequence[Counted]) -> dict[str, float]:
    """Combine several launches: add their times, and average their percentages weighted by time."""
    us = math.fsum(launch.us for launch in launches)
    shares = {name: math.fsum(launch.us * launch.percentages[name] for launch in launches) / us for name in PERCENTAGES}
    return {"kernel_us": round(us, 3), **{name: round(share, 2) for name, share in shares.items()}}


def _number(text: str) -> float:
    value = float(text.replace(",", ""))
    if not math.isfinite(value):
        raise ValueError(f"a finite number, but {text}")
    return value


def _reason(log: str, errors: str) -> str:
    lines = [line for line in (*log.splitlines(), *errors.splitlines()) if line.strip()]
    told = [line for line in lines if "ERROR" in line.upper()] or lines[-1:]
    return " ".join(re.sub(r"^==\w+==\s*", "", line) for line in told)[:300] or "it gave no reason"
