"""Find the program nsys, and let it export a report as SQLite."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lenet_trt.errors import LenetTrtError

# Installers put nsys here without adding it to PATH; of several versions the newest is taken.
_PLACES = (
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "/usr/local/cuda*/bin/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
)
_TIMEOUT_S = 3600.0


def find_nsys() -> Path | None:
    """Return the nsys on PATH, else the newest one where NVIDIA's installers put it."""
    found = shutil.which("nsys")
    if found:
        return Path(found)
    for place in _PLACES:
        candidates = sorted(Path("/").glob(place.lstrip("/")), key=_version)
        if candidates:
            return candidates[-1]
    return None


@contextmanager
def exported_sqlite(report: Path) -> Iterator[Path]:
    """Export a report (.nsys-rep, .qdrep) as SQLite into a temporary folder, and remove it after.

    Raises:
        LenetTrtError: nsys is not installed, is too old for the report, or has no space to write.
    """
    nsys = find_nsys()
    if nsys is None:
        raise LenetTrtError(
            f"{report} is a report of Nsight Systems, which only nsys can read, and nsys was not found: install "
            "Nsight Systems (developer.nvidia.com/nsight-systems), or run nsys export --type sqlite where the report "
            "was made and give the .sqlite file"
        )
    with tempfile.TemporaryDirectory(prefix="lenet-trt-nsys-") as folder:
        target = Path(folder) / "report.sqlite"
        command = [str(nsys), "export", "--type", "sqlite", "--force-overwrite", "true"]
        command += ["--output", str(target), str(report.resolve())]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LenetTrtError(f"{nsys} export failed: {error}") from error
        if done.returncode != 0 or not target.is_file():
            said = " ".join((done.stderr or done.stdout).split())[-500:] or f"exit status {done.returncode}"
            raise LenetTrtError(
                f"{nsys} cannot export {report}: {said}. The version of Nsight Systems that made a report, and later "
                "versions, can read it"
            )
        yield target


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", str(path)))
