"""Define the request of the quantize stage, and the options of the command line that make one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lenet_trt.build.labelled import LabelledImages
from lenet_trt.build.request import MAX_DROP_POINTS
from lenet_trt.errors import UsageError
from lenet_trt.images.form import ImageOptions, add_image_arguments, image_options
from lenet_trt.options import add_sizes, number, sizes_from_text, whole
from lenet_trt.overwrite import add_overwrite

# How ONNX Runtime chooses the largest value of an activation, from what the calibration images give.
METHODS = ("minmax", "entropy", "percentile")
COUNT = 512
SEED = 20
MAX_CHANGE_PERCENT = 1.0


@dataclass(frozen=True)
class QuantizeRequest:
    """Describe what to quantize; the defaults make the shipped LeNet-5 int8 with MNIST's training images.

    ``onnx``: a model file; None is LeNet-5. ``data``: files or folders of training images, or an .npz of arrays named
    after the model's inputs; none means MNIST's training set, for LeNet-5 alone.
    ``sizes``: sizes of open axes by their names.
    ``narrow``: the type of quantized layers. ``rest``: the type of the others.
    ``count``: the images that calibrate, chosen by ``seed``. ``method``: one of ``METHODS``.
    ``keep``: names of nodes that are not quantized. ``max_change``: percent of the calibration images that may get
    another class (of a network that is no classifier: the relative error in norm, in percent).
    ``max_drop``: the largest allowed loss of accuracy, in points, on ``images`` (None: MNIST's test set, for
    classifiers of its digits).
    """

    onnx: Path | None = None
    data: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    narrow: Literal["int8", "fp8"] = "int8"
    rest: Literal["fp32", "fp16"] = "fp32"
    count: int = COUNT
    seed: int = SEED
    method: str = "minmax"
    keep: tuple[str, ...] = ()
    max_change: float = MAX_CHANGE_PERCENT
    max_drop: float = MAX_DROP_POINTS
    images: LabelledImages | None = None
    options: ImageOptions = field(default_factory=ImageOptions)
    output: Path | None = None
    overwrite: bool = False

    @property
    def model(self) -> Path:
        """Return the path of the quantized model."""
        if self.output is not None:
            return self.output
        stem = "lenet5" if self.onnx is None else self.onnx.stem
        name = f"{stem}.{self.narrow}{'' if self.rest == 'fp32' else f'-{self.rest}'}.onnx"
        return Path(name) if self.onnx is None else self.onnx.with_name(name)


def add_quantize_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that make a request."""
    parser.add_argument(
        "model", type=Path, nargs="?", metavar="MODEL", help="the ONNX file, of float32 (default: the shipped LeNet-5)"
    )
    parser.add_argument(
        "--data",
        nargs="+",
        default=[],
        metavar="FOLDER|FILE",
        help="training images: a folder of pictures or of MNIST's files, IDX, .npy, .npz; for other networks an .npz "
        "with an array for each input (default, for LeNet-5 alone: MNIST's training images)",
    )
    add_sizes(parser)
    narrow = parser.add_mutually_exclusive_group()
    narrow.add_argument("--int8", dest="narrow", action="store_const", const="int8", help="8-bit integers (default)")
    narrow.add_argument(
        "--fp8", dest="narrow", action="store_const", const="fp8", help="float8 e4m3, for 8.9 and newer"
    )
    parser.add_argument("--fp16", action="store_true", help="fp16 for what is not quantized (default: fp32)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="where to write (default: MODEL.int8.onnx)")
    parser.add_argument("--count", type=whole(1, 1 << 20), default=COUNT, help="images that calibrate")
    parser.add_argument("--seed", type=whole(0, 2**31 - 1), default=SEED, help="seed of the choice of images")
    parser.add_argument(
        "--method", choices=METHODS, default="minmax", help="how the largest value of an activation is chosen"
    )
    parser.add_argument(
        "--keep", nargs="+", default=[], metavar="NODE", help="nodes that are not quantized, besides those found"
    )
    parser.add_argument(
        "--max-change",
        type=number(0, 100),
        default=MAX_CHANGE_PERCENT,
        metavar="PERCENT",
        help="percent of the calibration images that may get another class (no classifier: relative error of the "
        "outputs) before layers that lose most are left as they are",
    )
    parser.add_argument(
        "--max-drop",
        type=number(0, 100),
        default=MAX_DROP_POINTS,
        metavar="POINTS",
        help="percentage points of accuracy that it may cost on the labelled images (100: also NaN and infinity)",
    )
    parser.add_argument(
        "--images", nargs="+", metavar="FILE", help="labelled images to measure the accuracy, as run takes them"
    )
    parser.add_argument("--labels", metavar="FILE", help="the images' classes")
    add_overwrite(parser)
    add_image_arguments(parser)


def quantize_request_from(arguments: argparse.Namespace) -> QuantizeRequest:
    """Make a request from the parsed options.

    Raises:
        UsageError: an option needs another one.
    """
    if arguments.labels is not None and arguments.images is None:
        raise UsageError("--labels needs --images")
    if arguments.model is not None and not arguments.data:
        raise UsageError(
            f"{arguments.model} needs calibration data: name training images with --data (a few hundred, of all "
            "classes, and none of those that the accuracy is measured with)"
        )
    options = image_options(arguments)
    return QuantizeRequest(
        onnx=arguments.model,
        data=tuple(arguments.data),
        sizes=sizes_from_text(arguments.sizes),
        narrow=arguments.narrow or "int8",
        rest="fp16" if arguments.fp16 else "fp32",
        count=arguments.count,
        seed=arguments.seed,
        method=arguments.method,
        keep=tuple(arguments.keep),
        max_change=arguments.max_change,
        max_drop=arguments.max_drop,
        images=None if arguments.images is None else LabelledImages(tuple(arguments.images), arguments.labels, options),
        options=options,
        output=arguments.output,
        overwrite=arguments.overwrite,
    )
