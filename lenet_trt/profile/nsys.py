"""Run Nsight Systems over a program: find it, ask for its version, and explain why it made no report."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lenet_trt.profile.request import RecorderError
from lenet_trt.trace.readers.nsys_tool import find_nsys

# Older versions do not trace the nodes of a CUDA graph one by one.
_OLDEST = (2022, 1)
_WAIT_S = 60.0
_SHOWN_LINES = 8

# CUDA calls, GPU work and NVTX ranges between cuProfilerStart and cuProfilerStop; no sampling of the CPU, which makes
# the report a thousand times larger. The program goes on after the range: it has results to write.
FLAGS = (
    "--trace=cuda,nvtx",
    "--sample=none",
    "--cpuctxsw=none",
    "--cuda-graph-trace=node",
    "--capture-range=cudaProfilerApi",
    "--capture-range-end=stop",
    "--force-overwrite=true",
)


@dataclass(frozen=True)
class Nsys:
    """Hold an ``nsys`` that runs, and the version that it prints."""

    path: str
    version: str


def find_profiler() -> Nsys:
    """Find ``nsys`` on the PATH, or the newest one in the usual places.

    Raises:
        RecorderError: nsys is not installed, does not start, or is too old.
    """
    found = find_nsys()
    if found is None:
        raise RecorderError(
            "nsys is neither on the PATH nor where its installers put it: install Nsight Systems "
            "(developer.nvidia.com/nsight-systems), or put its folder on the PATH"
        )
    try:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=_WAIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise RecorderError(f"{found} does not start ({error}): install Nsight Systems again") from error
    match = re.search(r"version (\d+)\.(\d+)[\w.-]*", said.stdout)
    if said.returncode != 0 or match is None:
        raise RecorderError(
            f"{found} --version says {_last_lines(said.stdout + said.stderr) or 'nothing'} "
            f"(exit {said.returncode}); wanted a version"
        )
    if (int(match[1]), int(match[2])) < _OLDEST:
        raise RecorderError(
            f"{found} is version {match[1]}.{match[2]}; wanted {'.'.join(map(str, _OLDEST))} or newer, "
            "which trace the kernels of a CUDA graph"
        )
    return Nsys(str(found), match[0].removeprefix("version "))


def nsys_command(nsys: Nsys, report: Path, program: Sequence[str]) -> list[str]:
    """Return the command line that traces a program into ``report``, a path that ends in .nsys-rep."""
    return [nsys.path, "profile", *FLAGS, f"--output={report.with_suffix('')}", *program]


def trace(nsys: Nsys, report: Path, program: Sequence[str], environment: Mapping[str, str]) -> str:
    """Trace a program; return the last lines that it printed.

    Raises:
        RecorderError: nsys failed, or left no report; the message says what nsys printed.
    """
    report.unlink(missing_ok=True)
    done = subprocess.run(
        nsys_command(nsys, report, program),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=dict(environment),
    )
    if report.is_file():
        return _last_lines(done.stdout)
    raise RecorderError(_why_no_report(nsys, report, done.returncode, done.stdout))


def _why_no_report(nsys: Nsys, report: Path, status: int, said: str) -> str:
    lines = _last_lines(said)
    raw = report.with_suffix(".qdstrm")
    if raw.is_file() or "importer" in said.lower():
        kept = f" The recording is in {raw}." if raw.is_file() else ""
        missing = re.search(r"(lib[\w.+-]+\.so[\w.]*)", said)
        advice = (
            f"install the package that has {missing[1]} (for libdw.so.1: apt-get install libdw1)"
            if missing
            else "on a small image it usually lacks libdw.so.1 (apt-get install libdw1)"
        )
        return (
            f"{nsys.path} {nsys.version} traced the program, but its importer made no report: {advice}, "
            f"or take --with cupti.{kept} It said: {lines}"
        )
    return f"{nsys.path} {nsys.version} made no report (exit {status}). It said: {lines or 'nothing'}"


def _last_lines(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-_SHOWN_LINES:])
