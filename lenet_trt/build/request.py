"""Define the request of the build stage, and the options of the command line that make one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lenet_trt.build.labelled import LabelledImages
from lenet_trt.cuda.gpus import sm_text
from lenet_trt.errors import UsageError
from lenet_trt.fuse.stage import CHOICES_HELP
from lenet_trt.images.form import ImageOptions, add_image_arguments, image_options
from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.profiles import DEFAULT_BATCH, LENET5_BATCH, parse_shapes
from lenet_trt.options import add_sizes, number, sizes_from_text, whole
from lenet_trt.overwrite import add_overwrite
from lenet_trt.tensorrt.engine import VERBOSITIES, BuildOptions
from lenet_trt.tensorrt.find_library import add_library_argument
from lenet_trt.tensorrt.flavors import RTX_PORTABLE_SMS
from lenet_trt.tensorrt.routes import ROUTES

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "fp8")
NARROW = ("int8", "fp8")  # these need calibration, which lenet-trt quantize does
ENGINES = Path("engines")
MAX_DROP_POINTS = 0.2
MOST_WORKSPACE_MIB = 1 << 24  # 16 TiB, more than any GPU has


@dataclass(frozen=True)
class BuildRequest:
    """Describe what to build; the defaults build the shipped LeNet-5 in fp32.

    ``onnx``: a model file; None is LeNet-5, exported afresh where torch is installed.
    ``precision``: None keeps the model's own types.
    ``batch``: MIN:OPT:MAX of the first axis (None: ``default_batch``); ``shapes``: the min, opt and max shapes by input
    name instead.
    ``sizes``: sizes of open axes by their names, which the engine then has for good.
    ``plugins``: "none", "auto", "all" or kernel names joined by commas, as ``lenet_trt.fuse.stage.fuse`` takes them.
    ``plugin_route``: the way of the kernels into TensorRT ("ptx", "python", "library"); None is the flavor's default.
    ``library``: the plugin library, for the route of that name; None is the library in the current folder.
    ``sms``: target compute capabilities, or "current"; none means the flavor's default.
    ``force``: build even if the engine on disk has the same inputs. ``overwrite``: replace files of other commands.
    ``max_drop``: the largest allowed loss of accuracy, in percentage points; 100 allows NaN and infinity too.
    ``images``: labelled images that measure the loss; None is MNIST's test set, for classifiers of its digits.
    """

    onnx: Path | None = None
    precision: str | None = None
    batch: str | None = None
    shapes: tuple[dict[str, Shape], dict[str, Shape], dict[str, Shape]] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    plugins: str = "none"
    plugin_route: str | None = None
    library: Path | None = None
    sms: tuple[str, ...] = ()
    flavor: str = "auto"
    options: BuildOptions = field(default_factory=BuildOptions)
    output: Path | None = None
    force: bool = False
    overwrite: bool = False
    max_drop: float = MAX_DROP_POINTS
    images: LabelledImages | None = None

    @property
    def default_name(self) -> str:
        """Return the file name of the engine where ``output`` does not name one."""
        stem = "lenet5" if self.onnx is None else self.onnx.stem
        precision = self.precision or ("fp32" if self.onnx is None else None)
        parts = (stem, precision, "plugins" if self.plugins != "none" else None)
        return "-".join(filter(None, parts)) + ".engine"

    @property
    def default_batch(self) -> str:
        """Return the sizes of the first axis where neither ``batch`` nor ``shapes`` gives them."""
        return LENET5_BATCH if self.onnx is None else DEFAULT_BATCH

    @property
    def engine(self) -> Path:
        """Return the path of the engine."""
        return ENGINES / self.default_name if self.output is None else self.output


def add_request_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that make a request."""
    parser.add_argument(
        "model",
        type=Path,
        nargs="?",
        metavar="MODEL",
        help="the ONNX file to build from (default: the shipped LeNet-5)",
    )
    precision = parser.add_mutually_exclusive_group()
    for name in PRECISIONS:
        precision.add_argument(
            f"--{name}",
            dest="precision",
            action="store_const",
            const=name,
            default=None,
            help=f"compute in {name} (none of these: the model's own types; LeNet-5 is fp32)"
            if name not in NARROW
            else f"LeNet-5 with layers in {name}; for other models: lenet-trt quantize --{name}, then build",
        )
    parser.add_argument(
        "--tf32", action="store_true", help="let fp32 layers multiply in TF32 (faster, with 10 bits of mantissa)"
    )
    parser.add_argument(
        "--plugins",
        default="none",
        metavar="auto|all|none|NAME,...",
        help=f"kernels that replace layers: {CHOICES_HELP}",
    )
    parser.add_argument(
        "--plugin-route",
        choices=tuple(ROUTES),
        help="the way of the kernels into TensorRT (default: the first that this TensorRT supports): "
        + "; ".join(f"{route.name}: {route.title}" for route in ROUTES.values()),
    )
    add_library_argument(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the engine's file (default: engines/, named after the model)"
    )
    parser.add_argument("--force", action="store_true", help="build even if the engine on disk has the same inputs")
    add_overwrite(parser)
    parser.add_argument(
        "--flavor", choices=("auto", "rtx", "tensorrt"), default="auto", help="TensorRT-RTX or full TensorRT"
    )
    parser.add_argument(
        "--sm",
        action="append",
        default=[],
        metavar="X.Y",
        help="target compute capability, such as 8.6, or 'current'; repeatable (default: for TensorRT-RTX "
        f"{', '.join(map(sm_text, RTX_PORTABLE_SMS))}, for full TensorRT the GPU here)",
    )
    shapes = parser.add_argument_group("shapes of a model with dynamic axes")
    shapes.add_argument(
        "--batch",
        metavar="MIN:OPT:MAX",
        help=f"size of the first axis (default: {DEFAULT_BATCH}, and {LENET5_BATCH} for the shipped LeNet-5)",
    )
    for option, which in (("--minShapes", "smallest"), ("--optShapes", "usual"), ("--maxShapes", "largest")):
        text = f"{which} shape of each dynamic input, written as for trtexec; several joined by commas"
        shapes.add_argument(option, metavar="NAME:1x3x28x28,...", help=text)
    add_sizes(shapes)
    builder = parser.add_argument_group("TensorRT's builder")
    builder.add_argument("--optimization-level", type=whole(0, 5), metavar="0..5", help="how long the builder searches")
    builder.add_argument(
        "--workspace", type=whole(1, MOST_WORKSPACE_MIB), metavar="MIB", help="largest scratch memory, MiB"
    )
    builder.add_argument(
        "--timing-cache", type=Path, metavar="FILE", help="timings to read and update (only full TensorRT)"
    )
    builder.add_argument(
        "--profiling-verbosity", choices=VERBOSITIES, default="detailed", help="what the engine says of its layers"
    )
    parser.add_argument(
        "--max-drop",
        type=number(0, 100),
        default=MAX_DROP_POINTS,
        metavar="POINTS",
        help="percentage points of accuracy that a lower precision or plugins may cost (100: also NaN and infinity)",
    )
    parser.add_argument(
        "--images", nargs="+", metavar="FILE", help="labelled images to measure the accuracy, as run takes them"
    )
    parser.add_argument("--labels", metavar="FILE", help="the images' classes")
    add_image_arguments(parser)


def request_from(arguments: argparse.Namespace) -> BuildRequest:
    """Make a request from the parsed options.

    Raises:
        UsageError: an option needs another one, or a value is not allowed.
    """
    texts = {name: getattr(arguments, name) for name in ("minShapes", "optShapes", "maxShapes")}
    given = [name for name, text in texts.items() if text is not None]
    if given and len(given) < 3:
        missing = ", ".join(f"--{name}" for name in texts if name not in given)
        raise UsageError(f"--{given[0]} needs {missing} too")
    shapes = tuple(parse_shapes(f"--{name}", text) for name, text in texts.items()) if given else None
    if arguments.labels is not None and arguments.images is None:
        raise UsageError("--labels needs --images")
    options = image_options(arguments)
    if arguments.images is None and options != ImageOptions():
        raise UsageError("--normalize, --mean, --std, --size and --resize say how images are read: they need --images")
    return BuildRequest(
        onnx=arguments.model,
        precision=arguments.precision,
        plugins=arguments.plugins,
        plugin_route=arguments.plugin_route,
        library=arguments.library,
        batch=arguments.batch,
        shapes=shapes,  # type: ignore[arg-type]
        sizes=sizes_from_text(arguments.sizes),
        sms=tuple(arguments.sm),
        flavor=arguments.flavor,
        options=BuildOptions(
            arguments.optimization_level,
            arguments.workspace,
            arguments.timing_cache,
            arguments.profiling_verbosity,
            arguments.tf32,
        ),
        output=arguments.output,
        force=arguments.force,
        overwrite=arguments.overwrite,
        max_drop=arguments.max_drop,
        images=None if arguments.images is None else LabelledImages(tuple(arguments.images), arguments.labels, options),
    )
