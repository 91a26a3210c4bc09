"""What a runtime is to the rest: it says its inputs and outputs, and runs them on the host or prepares device calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import onnx
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.model import dtype_of
from lenet_trt.profiles import Axes, axes_of, inputs_of
from lenet_trt.runtimes.arrays import DeviceArray

IMAGE_DTYPE = "uint8"
_IMAGE_RANK = 4


@dataclass(frozen=True)
class Port:
    """An input or output of a network: an axis is an int where its size is fixed, a name where it may vary."""

    name: str
    dtype: str
    axes: Axes

    def takes_images(self) -> bool:
        """Whether uint8 images can stand for it: they are divided by 255, on the device where the network is."""
        return len(self.axes) == _IMAGE_RANK and self.dtype in ("float32", "float16", "bfloat16")

    def check(self, shape: Sequence[int], dtype: str, *, images: bool = True) -> None:
        """Refuse what the network does not take; ``images``: uint8 is taken where ``takes_images``.

        Raises:
            LenetTrtError: another type or shape; says what to do about the usual mistakes.
        """
        wanted = f"{self.name} {self.dtype} [{', '.join(map(str, self.axes))}]"
        images = images and self.takes_images()
        if dtype != self.dtype and not (dtype == IMAGE_DTYPE and images):
            also = ", or uint8 images" if images else ""
            raise LenetTrtError(f"{self.name} is {dtype}; wanted {wanted}{also}: convert it")
        fits = len(shape) == len(self.axes) and all(
            isinstance(axis, str) or axis == size for axis, size in zip(self.axes, shape, strict=True)
        )
        if not fits:
            missing = len(shape) == len(self.axes) - 1
            raise LenetTrtError(
                f"{self.name} has shape {list(shape)}; wanted {wanted}"
                + (": add a batch axis, x[None]" if missing else "")
            )


def ports(model: onnx.ModelProto) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """The inputs and outputs that an ONNX model declares."""
    names = inputs_of(model)
    inputs = [value for value in model.graph.input if value.name in names]
    return tuple(map(_port, inputs)), tuple(map(_port, model.graph.output))


def _port(value: onnx.ValueInfoProto) -> Port:
    return Port(value.name, dtype_of(value), axes_of(value))


class HostRuntime(Protocol):
    """Runs arrays of the host; uint8 images are already divided."""

    name: str
    where: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run once.

        Raises:
            LenetTrtError: the network cannot take these inputs.
        """

    def close(self) -> None:
        """Let go of what it holds."""


class Call(Protocol):
    """One call made ready, reading the same memory each time and writing the same ``outputs``."""

    outputs: tuple[DeviceArray, ...]

    def __call__(self, stream: int) -> None:
        """Put the work into a stream; nothing is allocated and nothing is waited for, unless the runtime must."""


@runtime_checkable
class DeviceRuntime(Protocol):
    """Runs memory of the GPU; ``scales_images``: uint8 images are divided there, so that they travel as bytes."""

    name: str
    scales_images: bool
    where: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def prepare(self, inputs: Sequence[DeviceArray]) -> Call:
        """Make a call ready that reads from these addresses; an input may be uint8 images where it ``scales_images``.

        Raises:
            LenetTrtError: the network cannot take these inputs, or fails on them; names the node.
        """

    def close(self) -> None:
        """Let go of what it holds."""
