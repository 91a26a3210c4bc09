"""Read the options of ``doctor``: list what is installed, what can run here, and what to install for the rest."""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from lenet_trt import __version__
from lenet_trt.cuda.gpus import gpus, sm_text
from lenet_trt.cuda.machine import machine_of
from lenet_trt.cuda.nvrtc import INSTALL as CUDA_INSTALL
from lenet_trt.cuda.nvrtc import bindings
from lenet_trt.errors import LenetTrtError
from lenet_trt.onnx_model import onnx_runtime
from lenet_trt.schema import json_text
from lenet_trt.tensorrt.flavors import INSTALL, PRODUCTS, Flavor, installed, select

# The distributions that are looked for, and the extra that installs each.
_PACKAGES = {
    "onnx": None,
    "torch": "gpu",
    "cuda-bindings": "cuda13",
    "nvidia-cuda-nvrtc": "cuda13",
    "cupti-python": "profile",
    "nvtx": "profile",
    "pycuda": "pycuda",
    "polygraphy": "polygraphy",
}
# The programs that are looked for, and where to get each.
_TOOLS = {
    "trtexec": "the TensorRT archive or Debian package from NVIDIA (pip wheels do not carry it)",
    "tensorrt_rtx": "the TensorRT-RTX SDK archive from NVIDIA (pip wheels do not carry it)",
    "nsys": "Nsight Systems",
    "ncu": "Nsight Compute",
    "compute-sanitizer": "the CUDA Toolkit",
    "dot": "Graphviz; it makes large graphs of `lenet-trt inspect --svg` readable",
}
_TOOL_PLACES = (
    "/usr/local/cuda/bin",
    "/usr/src/tensorrt/bin",
    "/opt/nvidia/nsight-compute",
    "/opt/nvidia/nsight-systems",
)


@dataclass(frozen=True)
class Symptom:
    """Hold one thing that was looked for: ``found`` is its version or state, ``fix`` says how to install it."""

    topic: str
    name: str
    ok: bool
    found: str
    fix: str | None = None


def examine() -> list[Symptom]:
    """Examine this machine without installing, changing or downloading anything."""
    flavors = {name: _flavor(name) for name in PRODUCTS}
    return [
        Symptom(
            "system", "lenet-trt", True, f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
        ),
        *_gpu_findings(flavors),
        *_tuned(),
        *(_flavor_finding(name, found) for name, found in flavors.items()),
        _onnx_runtime(),
        *(_package(name, extra) for name, extra in _PACKAGES.items()),
        *(_tool(name, source) for name, source in _TOOLS.items()),
        *_abilities(flavors),
    ]


def _flavor(name: str) -> Flavor | LenetTrtError:
    try:
        return select(name)
    except LenetTrtError as error:
        return error


def _flavor_finding(name: str, found: Flavor | LenetTrtError) -> Symptom:
    if isinstance(found, Flavor):
        targets = ", ".join(map(sm_text, found.sms())) or "the GPU that will run them"
        return Symptom("tensorrt", PRODUCTS[name], True, f"{found.version}; builds for {targets}")
    missing = not installed()[name]
    return Symptom("tensorrt", PRODUCTS[name], False, "not installed" if missing else str(found), INSTALL[name])


def _gpu_findings(flavors: dict[str, Flavor | LenetTrtError]) -> list[Symptom]:
    found = gpus()
    if not found.devices:
        return [Symptom("gpu", "GPU", False, found.problem or "none", "an NVIDIA GPU and its driver")]
    rows = []
    for gpu in found.devices:
        takers = [
            PRODUCTS[name] for name, flavor in flavors.items() if isinstance(flavor, Flavor) and flavor.supports(gpu)
        ]
        memory = f"{gpu.memory_bytes >> 30} GiB"
        text = f"{gpu.name}, compute capability {gpu.capability}, {memory}, driver for CUDA {found.driver_cuda}"
        fix = None if takers else f"TensorRT-RTX does not take {gpu.capability}: {INSTALL['tensorrt']}"
        rows.append(Symptom("gpu", f"GPU {gpu.index}", bool(takers), text, fix))
    return rows


def _tuned() -> list[Symptom]:
    """Say whether the variants of the kernels were measured on the GPU here."""
    machine = machine_of()
    if machine is None:
        return []
    count = len(list(machine.tuning_path("any").parent.glob("*.json")))
    found = f"{count} tuned for this GPU" if count else "the declared choices hold; lenet-trt tune measures them here"
    return [Symptom("gpu", "kernels", True, found)]


def _package(name: str, extra: str | None) -> Symptom:
    try:
        return Symptom("package", name, True, metadata.version(name))
    except metadata.PackageNotFoundError:
        fix = f"pip install 'lenet-trt[{extra}]'" if extra else "pip install --force-reinstall lenet-trt"
        return Symptom("package", name, False, "not installed", fix)


def _onnx_runtime() -> Symptom:
    """Say which ONNX Runtime is here: for the CPU, for the GPU too, none, or two that overwrote each other's files."""
    found = onnx_runtime.packages()
    name = onnx_runtime.CPU_PACKAGE
    if len(found) > 1:
        both = " and ".join(f"{package} {version}" for package, version in found.items())
        fix = f"keep one: {onnx_runtime.INSTALL_CUDA}"
        return Symptom("package", name, False, f"{both} have overwritten each other's files", fix)
    if not found:
        return Symptom("package", name, False, "not installed", onnx_runtime.INSTALL)
    ((package, version),) = found.items()
    if package == name and gpus().devices:
        return Symptom(
            "package", name, True, f"{version}, only on the CPU", f"for the GPU: {onnx_runtime.INSTALL_CUDA}"
        )
    return Symptom("package", name, True, f"{version}, {'only on the CPU' if package == name else package}")


def _tool(name: str, source: str) -> Symptom:
    path = shutil.which(name) or next(map(str, _elsewhere(name)), None)
    if path is None:
        return Symptom("tool", name, False, "not found", source)
    return Symptom("tool", name, True, f"{_tool_version(path)} ({path})")


def _elsewhere(name: str) -> list[Path]:
    """Find a tool where installers put it without changing PATH."""
    return [
        path
        for place in _TOOL_PLACES
        for path in sorted(Path(place).glob(f"**/{name}"), reverse=True)
        if path.is_file()
    ]


def _tool_version(path: str) -> str:
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not answer: {error}"
    match = re.search(r"\d+\.\d+(\.\d+)*", answer.stdout + answer.stderr)
    return match[0] if match else "version unknown"


def _abilities(flavors: dict[str, Flavor | LenetTrtError]) -> list[Symptom]:
    """Return what the toolkit can do here, in a user's words."""
    rtx, full = (isinstance(flavors[name], Flavor) for name in ("rtx", "tensorrt"))
    devices = gpus().devices
    runnable = any(
        isinstance(flavor, Flavor) and flavor.supports(gpu) for flavor in flavors.values() for gpu in devices
    )
    checks: list[tuple[str, bool, str]] = [
        ("build engines", rtx or (full and bool(devices)), INSTALL["rtx"]),
        ("run engines", runnable, "a GPU that an installed flavor takes"),
        ("compile kernels", _compiles(), CUDA_INSTALL),
        ("run kernels", bool(devices), "an NVIDIA GPU and its driver"),
        ("train and export", _package("torch", "export").ok, "pip install 'lenet-trt[export]'"),
    ]
    return [Symptom("here", name, ok, "yes" if ok else "no", None if ok else fix) for name, ok, fix in checks]


def _compiles() -> bool:
    """Say whether NVRTC loads, from a package or from a CUDA toolkit."""
    try:
        bindings()
    except LenetTrtError:
        return False
    return True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def command(arguments: argparse.Namespace) -> int:
    """Print the findings; the status is always 0, since everything is optional somewhere."""
    findings = examine()
    if arguments.json:
        print(json_text([asdict(finding) for finding in findings]))
        return 0
    width = max(len(finding.name) for finding in findings)
    topic = None
    for finding in findings:
        if finding.topic != topic:
            topic = finding.topic
            print(f"{'' if topic == 'system' else chr(10)}{topic}")
        fix = f"  -> {finding.fix}" if finding.fix else ""
        print(f"  {'+' if finding.ok else '-'} {finding.name:<{width}}  {finding.found}{fix}")
    return 0


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["doctor", *sys.argv[1:]]))
