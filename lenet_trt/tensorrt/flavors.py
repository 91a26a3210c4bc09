"""The two flavors of TensorRT and all that differs between them; nothing else imports either.

``rtx``
    TensorRT-RTX (package ``tensorrt_rtx``): GeForce and RTX PRO GPUs; builds ahead of time, with no GPU present.
``tensorrt``
    TensorRT 10 or 11 (package ``tensorrt``): every GPU, data-centre ones too; builds on the GPU that runs the engine.

Source: trt.ComputeCapability and IBuilderConfig of tensorrt_rtx 1.7.1 and tensorrt 10.16 and 11.4; the precision
table was found by building LeNet-5 for each target with tensorrt_rtx 1.7.1.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from lenet_trt.cuda.gpus import Gpu, first_gpu
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import cache_dir, sha256_bytes

PACKAGES = {"rtx": "tensorrt_rtx", "tensorrt": "tensorrt"}
INSTALL = {"rtx": "pip install tensorrt-rtx", "tensorrt": "pip install 'lenet-trt[tensorrt]'"}
PRODUCTS = {"rtx": "TensorRT-RTX", "tensorrt": "TensorRT"}

# The lowest compute capability on which TensorRT-RTX computes with a type; FP32 has a rule of its own below.
_RTX_LOWEST_SM = {"bf16": "8.0", "fp8": "8.9"}


@dataclass(frozen=True)
class Flavor:
    """One importable flavor, and why it was taken."""

    name: str
    trt: ModuleType = field(repr=False, compare=False)
    version: str
    reason: str

    @property
    def product(self) -> str:
        """The flavor's full name and version, as people write it."""
        return f"{PRODUCTS[self.name]} {self.version}"

    @property
    def ahead_of_time(self) -> bool:
        """Whether it builds for GPUs that are not here."""
        return self.name == "rtx"

    @property
    def plugin_routes(self) -> tuple[str, ...]:
        """How plugins can get into an engine, the usual way first.

        ``ahead-of-time``: as PTX inside the engine, which then runs anywhere, under ``trtexec`` too.
        ``python``: as IPluginV3 in Python, which the process that runs the engine has to register first.
        """
        return ("python",) if self.ahead_of_time else ("ahead-of-time", "python")

    def sms(self) -> tuple[str, ...]:
        """The compute capabilities that can be named as targets; empty where the GPU present is the target."""
        if not self.ahead_of_time:
            return ()
        matches = (re.fullmatch(r"SM(\d+)(\d)", name) for name in self.trt.ComputeCapability.__members__)
        found = [(int(match[1]), int(match[2])) for match in matches if match]
        return tuple(f"{major}.{minor}" for major, minor in sorted(found))

    def portable_sms(self) -> tuple[str, ...]:
        """Where a plan without named targets runs: Ampere and later for ``rtx``, the GPU present for ``tensorrt``."""
        if not self.ahead_of_time:
            return tuple(gpu.sm for gpu in (first_gpu(),) if gpu is not None)
        return tuple(sm for sm in self.sms() if _sm_key(sm) >= (8, 0))

    def supports(self, gpu: Gpu) -> bool:
        """Whether engines of this flavor run on ``gpu``."""
        return not self.ahead_of_time or gpu.sm in self.sms()

    def targets(self, requested: Sequence[str]) -> tuple[str, ...]:
        """Resolve ``--sm`` values to compute capabilities; an empty answer is the flavor's default.

        The default is a portable plan (Ampere and later) for ``rtx`` and the GPU present for ``tensorrt``.

        Raises:
            UsageError: an unknown value, or one that this flavor cannot build for here.
        """
        resolved = []
        for text in requested:
            sm = self._current_sm() if text == "current" else text.removeprefix("sm_")
            if re.fullmatch(r"\d{2,3}", sm):  # 86 is 8.6, as nvcc writes it
                sm = f"{sm[:-1]}.{sm[-1]}"
            self._check_target(sm, text)
            resolved.append(sm)
        return tuple(sorted(set(resolved), key=_sm_key))

    def _current_sm(self) -> str:
        gpu = first_gpu()
        if gpu is None:
            raise UsageError(
                "--sm current needs a GPU, and there is none here: name one, such as --sm 8.6, "
                "or leave --sm out for a plan that runs on Ampere and later"
            )
        return gpu.sm

    def _check_target(self, sm: str, text: str) -> None:
        if self.ahead_of_time and sm not in self.sms():
            raise UsageError(
                f"--sm {text}: {self.product} builds for {', '.join(self.sms())} and 'current'. "
                "For other GPUs (data-centre ones such as 9.0) use --flavor tensorrt on a machine that has one."
            )
        if not self.ahead_of_time:
            gpu = first_gpu()
            if gpu is None or gpu.sm != sm:
                here = "there is no GPU here" if gpu is None else f"the GPU here is {gpu.sm} ({gpu.name})"
                raise UsageError(
                    f"--sm {text}: {self.product} builds for the GPU that it runs on, and {here}. "
                    "Leave --sm out, or use --flavor rtx, which builds for GPUs that are not here."
                )

    def check_types(self, types: frozenset[str], targets: Sequence[str], has_fp32_gemm: bool) -> None:
        """Refuse what this flavor's compiler would refuse for a target, before it runs.

        Raises:
            UsageError: names the type, the target and what to choose instead.
        """
        if not self.ahead_of_time:
            return
        for sm in targets:
            for kind in sorted(types & _RTX_LOWEST_SM.keys()):
                if _sm_key(sm) < _sm_key(_RTX_LOWEST_SM[kind]):
                    raise UsageError(
                        f"{PRODUCTS['rtx']} has no {kind} on compute capability {sm} "
                        f"(it starts at {_RTX_LOWEST_SM[kind]}): use --fp16 or another --sm"
                    )
            if sm == "7.5" and has_fp32_gemm:
                raise UsageError(
                    f"{PRODUCTS['rtx']} has no fp32 matrix product (Gemm, MatMul) on compute capability 7.5: "
                    "use --fp16, or --plugins dense_bias_relu, which replaces it by this toolkit's kernel"
                )


def installed() -> dict[str, bool]:
    """Which flavors can be found, without importing them."""
    return {name: importlib.util.find_spec(package) is not None for name, package in PACKAGES.items()}


def select(requested: str = "auto") -> Flavor:
    """Pick a flavor and import it.

    ``auto`` takes ``rtx`` unless the GPU present is one that only ``tensorrt`` takes and that is installed.

    Raises:
        LenetTrtError: the flavor asked for is not installed or does not load; says what to install.
    """
    found = installed()
    if requested != "auto":
        if not found[requested]:
            raise LenetTrtError(f"--flavor {requested}: {PRODUCTS[requested]} is not installed: {INSTALL[requested]}")
        return _load(requested, "asked for")
    if not any(found.values()):
        raise LenetTrtError(f"no TensorRT is installed: {INSTALL['rtx']}, or {INSTALL['tensorrt']}")
    if not found["rtx"]:
        return _load("tensorrt", "the only one installed")
    rtx = _load("rtx", "the default: it builds for GPUs that are not here")
    gpu = first_gpu()
    if gpu is not None and not rtx.supports(gpu) and found["tensorrt"]:
        return _load("tensorrt", f"{PRODUCTS['rtx']} does not take the GPU here, {gpu.name} ({gpu.sm})")
    return rtx


def _load(name: str, reason: str) -> Flavor:
    if name == "rtx":
        _link_rtx_libraries()
    try:
        trt = importlib.import_module(PACKAGES[name])
    except (ImportError, OSError, RuntimeError) as error:
        raise LenetTrtError(f"{PRODUCTS[name]} is installed but does not load ({error}): {INSTALL[name]}") from error
    version = str(trt.__version__)
    if name == "tensorrt" and int(version.split(".")[0]) < 10:
        raise LenetTrtError(f"TensorRT {version} is too old; 10.9 or newer is wanted: {INSTALL[name]}")
    return Flavor(name, trt, version, reason)


def _link_rtx_libraries() -> None:
    """Load TensorRT-RTX's libraries from a folder that also has the bare name ``libtensorrt_rtx.so``.

    Its ONNX parser opens that bare name beside itself when it meets a node that it takes for a plugin, the wheel
    ships only ``libtensorrt_rtx.so.1``, and the process would abort. So a folder in our cache holds links to the
    wheel's files under both names, and loading them from there first makes the parser look there.
    Needed by tensorrt_rtx 1.7; delete when the wheel ships the bare name.
    """
    spec = importlib.util.find_spec("tensorrt_rtx_libs")
    if spec is None or not spec.submodule_search_locations:
        return  # installed from the SDK, which has the bare name
    libraries = Path(next(iter(spec.submodule_search_locations))).resolve()
    core, parser = libraries / "libtensorrt_rtx.so.1", libraries / "libtensorrt_onnxparser_rtx.so.1"
    if not (core.exists() and parser.exists()) or (libraries / "libtensorrt_rtx.so").exists():
        return
    folder = _writable(cache_dir() / "lib" / sha256_bytes(str(libraries).encode())[:16])
    for name, target in (("libtensorrt_rtx.so", core), (core.name, core), (parser.name, parser)):
        _link(folder / name, target)
    for name in (core.name, parser.name):
        ctypes.CDLL(str(folder / name))


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="lenet-trt-lib-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="lenet-trt-lib-"))


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and Path(os.readlink(link)) == target:
        return
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


def _sm_key(sm: str) -> tuple[int, int]:
    major, minor = sm.split(".")
    return int(major), int(minor)
