"""Describe the inputs and outputs of a network, and the arrays that they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from lenet_trt.errors import LenetTrtError
from lenet_trt.onnx_model.profiles import Axes, axes_of, inputs_of
from lenet_trt.onnx_model.read import dtype_of

IMAGE_DTYPE = "uint8"


_IMAGE_RANK, _CLASSES_RANK = 4, 2
_IMAGE_CHANNELS = (1, 3)


@dataclass(frozen=True)
class Port:
    """Describe an input or output of a network: an axis is an int of fixed size, or a name where it may vary.

    ``largest_batch``: the largest size of an open first axis that an engine was built for; None: any.
    """

    name: str
    dtype: str
    axes: Axes
    largest_batch: int | None = None

    def __str__(self) -> str:
        """Return its name, type and axes, for messages: ``image float32 [n, 1, 28, 28]``."""
        return f"{self.name} {self.dtype} [{', '.join(map(str, self.axes))}]"

    def batch(self, chosen: int | None, usual: int) -> int:
        """Return the batch: the only one, else the ``chosen`` one, else ``usual`` or the largest that is below it."""
        fixed = self.axes[0]
        if isinstance(fixed, int):
            return fixed
        return chosen or min(usual, self.largest_batch or usual)

    def takes_images(self) -> bool:
        """Return whether it takes uint8 images, which are divided by 255 on the network's device."""
        return len(self.axes) == _IMAGE_RANK and self.dtype in ("float32", "float16", "bfloat16")

    def check(self, shape: Sequence[int], dtype: str, *, images: bool = True) -> None:
        """Refuse what the network does not take; ``images``: uint8 is taken where ``takes_images``.

        Raises:
            LenetTrtError: another type or shape; says what to do about the usual mistakes.
        """
        images = images and self.takes_images()
        if dtype != self.dtype and not (dtype == IMAGE_DTYPE and images):
            also = ", or uint8 images" if images else ""
            raise LenetTrtError(f"{self.name} is {dtype}; wanted {self}{also}: convert it")
        fits = len(shape) == len(self.axes) and all(
            isinstance(axis, str) or axis == size for axis, size in zip(self.axes, shape, strict=True)
        )
        if not fits:
            missing = len(shape) == len(self.axes) - 1
            raise LenetTrtError(
                f"{self.name} has shape {list(shape)}; wanted {self}"
                + (": add a batch axis, x[None]" if missing else "")
            )


def image_axes(inputs: Sequence[Port]) -> tuple[int, int | str, int | str] | None:
    """Return the channels (1 is grey, 3 is RGB), height and width of a network's images; None if it takes none."""
    if len(inputs) != 1 or not inputs[0].takes_images():
        return None
    _, channels, height, width = inputs[0].axes
    return (channels, height, width) if channels in _IMAGE_CHANNELS and isinstance(channels, int) else None


def classifies_images(inputs: Sequence[Port], outputs: Sequence[Port]) -> bool:
    """Say whether images go in and one number for each class comes out."""
    return image_axes(inputs) is not None and bool(outputs) and len(outputs[0].axes) == _CLASSES_RANK


def ports(model: onnx.ModelProto) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return the inputs and outputs that an ONNX model declares."""
    names = inputs_of(model)
    inputs = [value for value in model.graph.input if value.name in names]
    return tuple(map(_port, inputs)), tuple(map(_port, model.graph.output))


def _port(value: onnx.ValueInfoProto) -> Port:
    return Port(value.name, dtype_of(value), axes_of(value))
