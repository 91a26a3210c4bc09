"""Read the options of ``optimize``: find the layers that lose time, replace them by plugins, keep what is faster."""

from __future__ import annotations

import argparse
import math
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lenet_trt.build.request import MAX_DROP_POINTS
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import check_can_read, check_can_write
from lenet_trt.options import GIVE_SIZES, add_batches, add_sizes, batches_of, number, sizes_from_text
from lenet_trt.overwrite import add_overwrite, has_keys
from lenet_trt.profile.request import RECORDERS
from lenet_trt.runtimes.table import CHOICES, engines_alone
from lenet_trt.schema import json_text

if TYPE_CHECKING:
    from lenet_trt.optimize.settings import Settings
    from lenet_trt.optimize.space import Space


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="the ONNX file")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="the folder to write (default: MODEL.optimized)"
    )
    add_overwrite(parser)
    add_batches(parser, "sizes of the first axis to optimize for (default: 1, where it is dynamic)")
    add_sizes(parser)
    parser.add_argument("--runtime", choices=CHOICES, default="auto", help="the runtime; tensorrt builds engines")
    parser.add_argument(
        "--plugins",
        default="all",
        metavar="all|auto|NAME,...",
        help="kernels to try: all that fit (default), without those that no engine was measured with, or these",
    )
    parser.add_argument(
        "--tolerance", type=number(0), metavar="E", help="largest relative error of the outputs (default: 1e-5 in fp32)"
    )
    parser.add_argument(
        "--max-drop",
        type=number(0, 100),
        default=MAX_DROP_POINTS,
        metavar="POINTS",
        help="largest loss of accuracy",
    )
    parser.add_argument("--images", nargs="+", default=[], metavar="FILE", help="labelled images, as run takes them")
    parser.add_argument("--labels", metavar="FILE", help="the images' classes")
    parser.add_argument(
        "--with", dest="recorder", choices=RECORDERS, default="auto", help="the profiler, as for profile"
    )
    parser.add_argument(
        "--flavor", choices=("auto", "rtx", "tensorrt"), default="auto", help="TensorRT, to build engines"
    )
    parser.add_argument(
        "--minutes", type=number(0), metavar="M", help="try no further change after so long (default: try all)"
    )
    parser.add_argument("--restart", action="store_true", help="repeat the measurements of an earlier run")
    parser.add_argument("--json", action="store_true", help="print the record")


def command(arguments: argparse.Namespace) -> int:
    """Optimize one model; print what was chosen and the paths written."""
    from lenet_trt.onnx_model.fixed_axes import with_sizes
    from lenet_trt.onnx_model.plugin_nodes import refuse_copy
    from lenet_trt.onnx_model.read import WANTED_MODEL, load_model
    from lenet_trt.optimize import written
    from lenet_trt.optimize.bench import TRIED, Bench, sources
    from lenet_trt.optimize.journal import Journal, Remembered
    from lenet_trt.optimize.markdown import optimize_headline
    from lenet_trt.optimize.result import optimize
    from lenet_trt.optimize.space import Space
    from lenet_trt.tensorrt.engine import builder_kept

    path: Path = arguments.model
    check_can_read(path, WANTED_MODEL)
    if path.suffix != ".onnx":
        raise UsageError(f"{path} is not an ONNX file: give the model from which an engine is built")
    folder: Path = arguments.output or path.with_name(f"{path.stem}.optimized")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"-o {folder} is a file: name a folder")
    batch = None if arguments.batch is None else " ".join(arguments.batch)
    given = load_model(path)
    refuse_copy(given, str(path))
    model = with_sizes(given, sizes_from_text(arguments.sizes), batch)
    _guard(folder, arguments.overwrite)
    settings = settings_from(arguments, model)
    space = Space(model, settings.plugins)
    about = _about(path, arguments, settings, space)
    identity = {
        "model": about["model_fingerprint"],
        "kernels": sources(space),
        "environment": about["environment"],
        "settings": {**asdict(settings), "batches": None, "data": _hashes(settings)},
        "where": about["where"],
    }
    journal = Journal(folder / written.STATE, identity, restart=arguments.restart)
    if journal.note:
        _log(journal.note)
    if not journal.resumes:
        shutil.rmtree(folder / TRIED, ignore_errors=True)  # models with other kernels in them
    bench = Remembered(Bench(space, settings, folder, _log, path), journal)
    try:
        with builder_kept():
            optimized = optimize(settings.batches, space, bench, _log, _over(arguments.minutes))
            paths, record = written.write_optimized(folder, path.stem, space, optimized, about)
            if engines_alone(settings.runtime):
                paths += _engines(folder, record, settings)
    except KeyboardInterrupt:
        _log(f"interrupted: the same command continues from {folder / written.STATE}")
        return 130
    shutil.rmtree(folder / TRIED, ignore_errors=True)
    if arguments.json:
        print(json_text({**record, "written": [str(each) for each in paths]}))
    else:
        print("\n".join([*optimize_headline(record), *map(str, paths)]))
    return 0


def _over(minutes: float | None) -> Callable[[], bool]:
    """Return what says whether so many minutes have passed since now."""
    end = math.inf if minutes is None else time.monotonic() + 60 * minutes
    return lambda: time.monotonic() >= end


def _guard(folder: Path, overwrite: bool) -> None:
    """Refuse a folder with other files in it: tried models are deleted there, and records are replaced.

    Raises:
        LenetTrtError: the folder is not empty, and no earlier run wrote in it; or it cannot be written.
    """
    from lenet_trt.optimize import written
    from lenet_trt.optimize.bench import TIMELINES, TRIED

    check_can_write(folder / written.RECORD)
    if overwrite or not folder.is_dir() or {path.name for path in folder.iterdir()} <= {TRIED, TIMELINES}:
        return
    if has_keys("schema", "key", "steps")(folder / written.STATE):
        return
    if not has_keys("schema", "models", "chosen")(folder / written.RECORD):
        raise LenetTrtError(
            f"{folder} has other things in it than what optimize writes: name a new folder with -o, or say --overwrite"
        )


def settings_from(arguments: argparse.Namespace, model: Any) -> Settings:
    """Make the settings from the parsed options.

    Raises:
        UsageError: a size or a tolerance is not allowed, or the model does not take the sizes.
    """
    from lenet_trt.onnx_model.profiles import inputs_of
    from lenet_trt.optimize.settings import Settings

    _only_first_axes_open(model)
    dynamic = any(axes and isinstance(axes[0], str) for axes in inputs_of(model).values())
    asked = batches_of(arguments.batch)
    if asked is not None and not dynamic:
        raise UsageError(f"--batch {' '.join(arguments.batch)}: the model's shapes are fixed; leave it out")
    batches = tuple(sorted(asked or (1,))) if dynamic else ()
    if arguments.plugins == "none":
        raise UsageError("--plugins none leaves nothing to try: leave it out")
    if arguments.labels and not arguments.images:
        raise UsageError("--labels needs --images")
    return Settings(
        runtime=_runtime(arguments.runtime, arguments.flavor),
        batches=batches,
        sizes=sizes_from_text(arguments.sizes),
        plugins=arguments.plugins,
        tolerance=arguments.tolerance,
        max_drop=arguments.max_drop,
        images=tuple(arguments.images),
        labels=arguments.labels,
        recorder=arguments.recorder,
        flavor=arguments.flavor,
    )


def _only_first_axes_open(model: Any) -> None:
    from lenet_trt.onnx_model.ports import ports
    from lenet_trt.onnx_model.profiles import axes_text, inputs_of
    from lenet_trt.runtimes.inputs import Sizes, shapes_of

    try:
        shapes_of(ports(model)[0], Sizes())
    except UsageError as error:
        raise UsageError(
            "optimize varies the size of first axes alone (--batch), and the model takes "
            f"{axes_text(inputs_of(model))}: {GIVE_SIZES}"
        ) from error


def _runtime(asked: str, flavor: str) -> str:
    """Choose the runtime: TensorRT where it is installed and supports the GPU, else the graph runtime.

    Raises:
        LenetTrtError: there is nothing here to time kernels or engines on, and a rehearsal was not asked for.
    """
    from lenet_trt.cuda.gpus import first_gpu, gpus
    from lenet_trt.tensorrt.flavors import installed, select

    gpu = first_gpu()
    if engines_alone(asked) and gpu is None:
        raise LenetTrtError(
            f"--runtime {asked}: engines are timed on a GPU, and this machine has none ({gpus().problem}): "
            "take --runtime ort-cpu to see what would be tried"
        )
    if asked == "auto" and gpu is None:
        raise LenetTrtError(
            f"optimize times kernels on a GPU, and there is none here ({gpus().problem}): run it where there is "
            "one, or rehearse it with --runtime ort-cpu, where a plugin is the nodes that it replaces and never faster"
        )
    if asked != "auto" or gpu is None or not any(installed().values()):
        return asked
    return "tensorrt" if select(flavor).supports(gpu) else asked


def _engines(folder: Path, record: dict[str, Any], settings: Settings) -> list[Path]:
    """Build the engine of each chosen model, for each of its batch sizes."""
    from lenet_trt.optimize.bench import TRIED, engine_of

    made = []
    for model in record["models"]:
        source = folder / model["path"]
        for batch in model["batches"]:
            name = source.stem if batch is None or len(model["batches"]) == 1 else f"{source.stem}-n{batch}"
            made.append(engine_of(source, folder / f"{name}.engine", batch, settings, folder / TRIED))
    return made


def _about(path: Path, arguments: argparse.Namespace, settings: Settings, space: Space) -> dict[str, Any]:
    """Return the record's facts on the run: the model, the machine, the way of measuring."""
    from contextlib import closing

    from lenet_trt.cuda.environment import commit, environment
    from lenet_trt.onnx_model.read import model_fingerprint
    from lenet_trt.optimize.timed import HOW_ON_GPU, HOW_ON_HOST
    from lenet_trt.runtimes.load import load

    if engines_alone(settings.runtime):
        from lenet_trt.tensorrt.flavors import select

        where, how = select(settings.flavor).product, HOW_ON_GPU
    else:
        with closing(load(path, settings.runtime)) as network:
            where, how = network.where, HOW_ON_GPU if network.on_device is not None else HOW_ON_HOST
    return {
        "model": path.name,
        "model_fingerprint": model_fingerprint(path),
        "sizes": dict(settings.sizes),
        "command": shlex.join(arguments.command_line),
        "where": where,
        "how": how,
        "rehearsal": how == HOW_ON_HOST,
        "environment": environment(),
        "made": {
            "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": commit(),
        },
        "refusals": [asdict(entry) for entry in space.refusals],
    }


def _hashes(settings: Settings) -> list[str]:
    from lenet_trt.files import sha256_file

    try:
        return [sha256_file(file) for file in settings.files() if not file.is_dir()]
    except OSError as error:
        raise LenetTrtError(f"{error.filename} cannot be read: {error.strerror or error}") from error


def _log(line: str) -> None:
    if line:
        print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["optimize", *sys.argv[1:]]))
