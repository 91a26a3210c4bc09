"""Choose between the two flavors of TensorRT, and refuse what they cannot do; no other module imports either.

``rtx``
    TensorRT-RTX (package ``tensorrt_rtx``): GeForce and RTX PRO GPUs; builds with no GPU present.
``tensorrt``
    TensorRT 8.5 to 11 (package ``tensorrt``): every GPU, data-centre ones too; builds on the GPU that runs the engine.

What each release can do is in ``capabilities``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType

from lenet_trt.cuda.gpus import Gpu, first_gpu, gpus, sm_number, sm_text
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.tensorrt import rtx_wheel
from lenet_trt.tensorrt.capabilities import Capabilities, capabilities, taken_by_some_release

PACKAGES = {"rtx": "tensorrt_rtx", "tensorrt": "tensorrt"}
INSTALL = {"rtx": "pip install tensorrt-rtx", "tensorrt": "pip install 'lenet-trt[tensorrt]'"}
if platform.machine() == "aarch64":
    INSTALL = {
        "rtx": "there is none for aarch64, take --flavor tensorrt",
        "tensorrt": f"{INSTALL['tensorrt']}; on a Jetson it comes with JetPack, for environments made by "
        "python3 -m venv --system-site-packages",
    }
PRODUCTS = {"rtx": "TensorRT-RTX", "tensorrt": "TensorRT"}

_AMPERE = 80
# The types that not every release has.
_LATER_TYPES = frozenset({"bf16", "fp8"})
# Where a plan of TensorRT-RTX 1.7 without named targets runs; a test compares it with what the package says.
RTX_PORTABLE_SMS = (80, 86, 89, 120, 121)


@dataclass(frozen=True)
class Flavor:
    """Describe an importable flavor, and why it was chosen."""

    name: str
    trt: ModuleType = field(repr=False, compare=False)
    version: str
    reason: str

    @property
    def product(self) -> str:
        """Return the flavor's full name and version, as people write it."""
        return f"{PRODUCTS[self.name]} {self.version}"

    @cached_property
    def can(self) -> Capabilities:
        """Return what this release can do.

        Raises:
            LenetTrtError: it is older than every release that is known.
        """
        return capabilities(self.name, self.version)

    def sms(self) -> tuple[int, ...]:
        """Return the compute capabilities that can be targets; empty where the GPU present is the target."""
        if not self.can.builds_without_gpu:
            return ()
        matches = (re.fullmatch(r"SM(\d+)", name) for name in self.trt.ComputeCapability.__members__)
        return tuple(sorted(int(match[1]) for match in matches if match))

    def portable_sms(self) -> tuple[int, ...]:
        """Return where a plan without named targets runs: Ampere and later for ``rtx``, else the GPU present."""
        if not self.can.builds_without_gpu:
            return tuple(gpu.sm for gpu in (first_gpu(),) if gpu is not None)
        return tuple(sm for sm in self.sms() if sm >= _AMPERE)

    def supports(self, gpu: Gpu) -> bool:
        """Return whether engines of this flavor run on ``gpu``."""
        if self.can.builds_without_gpu:
            return gpu.sm in self.sms()
        return self.can.oldest_sm <= gpu.sm <= self.can.newest_sm

    def targets(self, requested: Sequence[str]) -> tuple[int, ...]:
        """Resolve ``--sm`` values to compute capabilities; an empty answer is the flavor's default.

        The default is a portable plan (Ampere and later) for ``rtx`` and the GPU present for ``tensorrt``.

        Raises:
            UsageError: an unknown value, or one that this flavor cannot build for here.
        """
        resolved = set()
        for text in requested:
            sm = self._current_sm() if text == "current" else sm_number(text)
            resolved.add(self._checked_target(sm, text))
        return tuple(sorted(resolved))

    def _current_sm(self) -> int:
        gpu = first_gpu()
        if gpu is None:
            raise UsageError(
                "--sm current needs a GPU, and this machine has none: name one, such as --sm 8.6, "
                f"or leave --sm out for a plan that runs on {', '.join(map(sm_text, RTX_PORTABLE_SMS))}"
            )
        return gpu.sm

    def _checked_target(self, sm: int | None, text: str) -> int:
        if self.can.builds_without_gpu:
            if sm is None or sm not in self.sms():
                known = f"{self.product} builds for {', '.join(map(sm_text, self.sms()))} and 'current'"
                if sm is None or not taken_by_some_release(sm):
                    raise UsageError(f"--sm {text}: {known}")
                raise UsageError(
                    f"--sm {text}: {known}: "
                    "for other GPUs (data-centre ones such as 9.0) use --flavor tensorrt on a machine that has one"
                )
            return sm
        gpu = first_gpu()
        if gpu is None or gpu.sm != sm:
            here = "there is no GPU here" if gpu is None else f"the GPU here is {gpu.capability} ({gpu.name})"
            raise UsageError(
                f"--sm {text}: {self.product} builds for the GPU that it runs on, and {here}: "
                "leave --sm out, or use --flavor rtx, which builds for GPUs that are not present"
            )
        return gpu.sm

    def check_types(self, types: frozenset[str], targets: Sequence[int], has_fp32_gemm: bool) -> None:
        """Refuse types that this flavor's compiler would refuse for a target, before it runs.

        Raises:
            UsageError: names the type, the target and what to choose instead.
        """
        for kind in sorted(types & _LATER_TYPES - self.can.lowest_sm.keys()):
            raise UsageError(f"{self.product} has no {kind}: use --fp16 or --fp32, or a newer TensorRT")
        for sm in targets or self.portable_sms():
            for kind in sorted(types & self.can.lowest_sm.keys()):
                lowest = self.can.lowest_sm[kind]
                if sm < lowest:
                    raise UsageError(
                        f"{self.product} has no {kind} on compute capability {sm_text(sm)} "
                        f"(it starts at {sm_text(lowest)}): use --fp16 or another --sm"
                    )
            if has_fp32_gemm and sm < self.can.fp32_gemm_sm:
                other = (
                    "quantize the model with --fp16 for what is not quantized"
                    if "int8" in types
                    else "use --fp16, or --plugins dense_bias_relu, which replaces it by this toolkit's kernel"
                )
                raise UsageError(
                    f"{self.product} has no fp32 matrix product (Gemm, MatMul) on compute capability {sm_text(sm)}: "
                    f"{other}"
                )

    def check_parser(self) -> None:
        """Refuse to parse where the parser could end the process.

        Raises:
            LenetTrtError: says what to import first.
        """
        if self.name == "rtx":
            rtx_wheel.check_parser()

    def check_gpu(self) -> None:
        """Refuse to build where the builder needs a GPU and none of this machine will do: it would end the process.

        Raises:
            LenetTrtError: says what was found and what to do.
        """
        if self.can.builds_without_gpu:
            return
        gpu = first_gpu()
        if gpu is None:
            raise LenetTrtError(
                f"{self.product} builds on the GPU that runs the engine, and there is none here ({gpus().problem}): "
                f"build where it is, or use --flavor rtx ({INSTALL['rtx']}), which builds without one"
            )
        if not self.supports(gpu):
            oldest, newest = sm_text(self.can.oldest_sm), sm_text(self.can.newest_sm)
            raise LenetTrtError(
                f"{self.product} is for GPUs of compute capability {oldest} to {newest}, and {gpu.name} has "
                f"{gpu.capability}: install another release of TensorRT"
            )


def installed() -> dict[str, bool]:
    """Return the flavors that can be found, without importing them."""
    return {name: importlib.util.find_spec(package) is not None for name, package in PACKAGES.items()}


def select(requested: str = "auto") -> Flavor:
    """Pick a flavor and import it.

    ``auto`` takes ``rtx`` unless the GPU present is one that only ``tensorrt`` takes and that is installed.

    Raises:
        LenetTrtError: the flavor is not installed or does not load; the message says what to install.
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
        return _load("tensorrt", f"{PRODUCTS['rtx']} does not take the GPU here, {gpu.name} ({gpu.capability})")
    return rtx


def _load(name: str, reason: str) -> Flavor:
    if name == "rtx":
        rtx_wheel.link()
    try:
        with _functions_bound_when_called():
            trt = importlib.import_module(PACKAGES[name])
    except (ImportError, OSError, RuntimeError) as error:
        raise LenetTrtError(f"{PRODUCTS[name]} is installed but does not load ({error}): {INSTALL[name]}") from error
    flavor = Flavor(name, trt, str(trt.__version__), reason)
    try:
        _ = flavor.can
    except LenetTrtError as error:
        raise LenetTrtError(f"{PRODUCTS[name]} does not do: {error}: {INSTALL[name]}") from error
    return flavor


@contextmanager
def _functions_bound_when_called() -> Iterator[None]:
    """Load libraries without looking up every function that they name.

    The plugin library in the wheels of TensorRT 8 names functions of cuBLAS and cuDNN, which only NVIDIA's own plugins
    call. An installation may have another release of the two, or empty stand-ins.
    """
    if not hasattr(sys, "setdlopenflags"):  # Windows
        yield
        return
    before = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_LAZY)
    try:
        yield
    finally:
        sys.setdlopenflags(before)
