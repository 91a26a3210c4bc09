"""Define which images a network takes, how pixels become its numbers, and the options for both."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import UsageError
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.ports import Port, image_axes
from lenet_trt.options import number, read_whole

_PIXEL_MAX = 255
_MOST_DEVIATION = 1e6
# Mean and standard deviation of red, green and blue in 0 to 1, under their usual names.
NORMALIZATIONS = {
    "none": ((0.0,), (1.0,)),
    "half": ((0.5,), (0.5,)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
}
_Values = tuple[float, ...]


@dataclass(frozen=True)
class Form:
    """Describe images with ``channels`` (1 is grey, 3 is RGB); ``resize`` scales pictures of other sizes to this."""

    channels: int
    height: int
    width: int
    resize: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return channels, height and width."""
        return self.channels, self.height, self.width

    def __str__(self) -> str:
        """Describe an array of these images, for messages."""
        if self.channels == 1:
            return f"grey images [n, {self.height}, {self.width}] (or with a channel axis of 1)"
        return f"RGB images [n, 3, {self.height}, {self.width}] or [n, {self.height}, {self.width}, 3]"


@dataclass(frozen=True)
class Scaling:
    """Compute (pixels / 255 - mean) / standard deviation, with one value of each, or one for each channel."""

    mean: _Values = (0.0,)
    deviation: _Values = (1.0,)

    @property
    def plain(self) -> bool:
        """Say whether pixels are only divided by 255, which networks do where the pixels are."""
        return set(self.mean) == {0.0} and set(self.deviation) == {1.0}

    def __call__(self, pixels: NDArray[np.uint8], port: Port) -> NDArray[Any]:
        """Turn pixels into a network's input; with plain scaling they stay uint8.

        Shapes: [n, channels, height, width].

        Raises:
            UsageError: the number of values does not fit the number of channels.
        """
        if self.plain:
            return pixels
        channels = pixels.shape[1]
        for option, values in (("--mean", self.mean), ("--std", self.deviation)):
            if len(values) not in (1, channels):
                wanted = "1, for grey images" if channels == 1 else f"1 or {channels}, one per channel"
                raise UsageError(f"{option} has {len(values)} values; wanted {wanted}")
        mean, deviation = (np.array(values, np.float32).reshape(1, -1, 1, 1) for values in (self.mean, self.deviation))
        scaled = (pixels.astype(np.float32) / np.float32(_PIXEL_MAX) - mean) / deviation
        return scaled.astype(numpy_dtype(port.dtype))


def form_of(inputs: Sequence[Port], size: tuple[int, int] | None = None, resize: bool = False) -> Form:
    """Return the form of the images that a network takes; ``size`` is (height, width) where the network leaves it open.

    Raises:
        UsageError: the network takes no images, or leaves their size open and ``size`` is missing.
    """
    axes = image_axes(inputs)
    seen = ", ".join(map(str, inputs)) or "no input"
    if axes is None:
        raise UsageError(
            f"the network takes {seen}; images go into [n, 1, height, width] or [n, 3, height, width]. "
            "In Python, lenet_trt.run.load(path)(arrays) runs any network"
        )
    channels, *own = axes
    if size is None and any(isinstance(axis, str) for axis in own):
        raise UsageError(f"the network takes {seen}, of any height and width: say which with --size HEIGHTxWIDTH")
    height, width = own if size is None else size
    if size is not None and any(isinstance(axis, int) and axis != given for axis, given in zip(own, size, strict=True)):
        raise UsageError(f"--size {size[0]}x{size[1]}: the network takes {seen}")
    return Form(channels, int(height), int(width), resize)


@dataclass(frozen=True)
class ImageOptions:
    """Hold what the command line says of images."""

    scaling: Scaling = Scaling()
    size: tuple[int, int] | None = None
    resize: bool = False

    def form(self, inputs: Sequence[Port]) -> Form:
        """Return the form of the images that a network takes, as ``form_of`` does."""
        return form_of(inputs, self.size, self.resize)


def add_image_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that ``image_options`` reads."""
    group = parser.add_argument_group("images")
    group.add_argument(
        "--normalize",
        choices=tuple(NORMALIZATIONS),
        help="mean and deviation by name (default: none, pixels are only divided by 255); most networks take imagenet",
    )
    group.add_argument(
        "--mean",
        type=_values(-_MOST_DEVIATION),
        metavar="M[,M,M]",
        help="mean of pixels / 255, in place of --normalize",
    )
    group.add_argument(
        "--std", type=_values(1e-6), metavar="S[,S,S]", help="deviation of pixels / 255, in place of --normalize"
    )
    group.add_argument(
        "--size", type=_size, metavar="HxW", help="height and width, where the network takes images of any size"
    )
    group.add_argument(
        "--resize", action="store_true", help="scale pictures until they cover that size, and keep their middle"
    )


def image_options(arguments: argparse.Namespace) -> ImageOptions:
    """Read what ``add_image_arguments`` declared.

    Raises:
        UsageError: the mean and the deviation are given twice.
    """
    if arguments.normalize is not None and (arguments.mean is not None or arguments.std is not None):
        raise UsageError("--normalize names a mean and a deviation: give either --normalize, or --mean and --std")
    mean, deviation = NORMALIZATIONS[arguments.normalize or "none"]
    return ImageOptions(Scaling(arguments.mean or mean, arguments.std or deviation), arguments.size, arguments.resize)


def _values(low: float) -> Callable[[str], _Values]:
    read = number(low, _MOST_DEVIATION)

    def values(text: str) -> _Values:
        return tuple(map(read, text.split(",")))

    return values


def _size(text: str) -> tuple[int, int]:
    parts = text.split("x")
    if len(parts) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not HEIGHTxWIDTH, such as 224x224")
    height, width = (read_whole(part, 1, 1 << 16) for part in parts)
    return height, width
