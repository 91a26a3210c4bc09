"""Write a model repository of Triton Inference Server, and say how the server is started with it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from lenet_trt.deploy.config import MARK, ModelConfig
from lenet_trt.deploy.served import Served, engine_to_serve, onnx_to_serve
from lenet_trt.errors import UsageError
from lenet_trt.files import write_atomic
from lenet_trt.overwrite import Mark, guard, says

BACKENDS = ("tensorrt", "python")
CONFIG = "config.pbtxt"
# Where the printed command for a container mounts the repository.
_MOUNTED = "/models"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class TritonOptions:
    """How Triton is to serve: see the verb's options of the same names."""

    name: str | None = None
    version: int = 1
    max_batch: int | None = None
    queue_delay_us: int = 100
    instances: int = 1
    gpus: tuple[int, ...] | None = None
    warm_up: bool = False
    threads: int | None = None


@dataclass(frozen=True)
class Deployed:
    """What was written, and the commands that start the server: here, and in a container."""

    name: str
    files: tuple[Path, ...]
    command: str
    in_container: str
    tensorrt: str | None


def deploy(
    model: Path,
    repository: Path,
    backend: str = "tensorrt",
    options: TritonOptions | None = None,
    *,
    library: Path | None = None,
    shapes: Path | None = None,
    overwrite: bool = False,
) -> Deployed:
    """Write ``repository/NAME`` with its configuration and one version of the model.

    Raises:
        UsageError: options that contradict each other or the model.
        LenetTrtError: the model cannot be served so, or a file is there that this command did not make.
    """
    given = options or TritonOptions()
    if backend == "python" and (library is not None or shapes is not None):
        raise UsageError("--library and --onnx are for engines: leave them out with --backend python")
    if backend == "tensorrt" and given.threads is not None:
        raise UsageError("--threads is for ONNX Runtime: add --backend python, or leave it out")
    if backend == "tensorrt":
        served = engine_to_serve(model, library, shapes, given.max_batch)
    else:
        served = onnx_to_serve(model, given.max_batch)
    config = _config(_name(given.name, model), backend, served, given)
    folder = repository / config.name
    written = _contents(folder, backend, served, config, given.version)
    marks: dict[Path, Mark] = {path: _ours(folder) for path in written}
    guard({folder / CONFIG: says(MARK), **marks}, served.read, overwrite)
    # The configuration comes last: a server that looks between sees no new model.
    for path, data in written.items():
        write_atomic(path, data)
    write_atomic(folder / CONFIG, config.text().encode())
    own = None if served.library is None else folder / served.library.name
    return Deployed(
        config.name,
        (*written, folder / CONFIG),
        _command(repository.resolve(), None if own is None else own.resolve()),
        _container_command(
            repository.resolve(),
            None if own is None else f"{_MOUNTED}/{config.name}/{own.name}",
            with_gpus=config.gpus is not None,
        ),
        served.tensorrt,
    )


def _name(asked: str | None, model: Path) -> str:
    name = asked or model.name.partition(".")[0]
    if not _NAME.fullmatch(name):
        wanted = "wanted letters, digits, _, - and . alone, as a folder and an address have them"
        if asked is None:
            raise UsageError(f"the name of {model} is no model name, {name!r}: {wanted}: give another with --name NAME")
        raise UsageError(f"--name {name}: {wanted}")
    return name


def _config(name: str, backend: str, served: Served, given: TritonOptions) -> ModelConfig:
    on_gpu = backend == "tensorrt" or given.gpus is not None
    parameters = {}
    if given.threads is not None:
        parameters["threads"] = str(given.threads)
    if served.optimize != "yes":
        parameters["optimize"] = served.optimize
    return ModelConfig(
        name=name,
        backend=backend,
        max_batch=served.max_batch,
        inputs=served.inputs,
        outputs=served.outputs,
        gpus=(given.gpus or ()) if on_gpu else None,
        instances=given.instances,
        queue_delay_us=given.queue_delay_us,
        warm_up=tuple(dict.fromkeys((1, max(1, served.max_batch)))) if given.warm_up else (),
        parameters=parameters,
    )


def _contents(folder: Path, backend: str, served: Served, config: ModelConfig, version: int) -> dict[Path, bytes]:
    """Return the files of the model except its configuration, by their paths."""
    config.text()  # which refuses what Triton cannot have, before anything is written
    own = folder / str(version)
    if backend == "tensorrt":
        library = {} if served.library is None else {folder / served.library.name: served.library.read_bytes()}
        return {own / "model.plan": served.data, **library}
    program = resources.files("lenet_trt.deploy").joinpath("python_model.py").read_bytes()
    return {own / "model.onnx": served.data, own / "model.py": program}


def _ours(folder: Path) -> Mark:
    """Recognise a file by the configuration of its model, which this command wrote."""
    config = folder / CONFIG
    return lambda _: config.is_file() and says(MARK)(config)


def _command(repository: Path, library: Path | None) -> str:
    words = ["tritonserver", f"--model-repository={repository}"]
    if library is not None:
        words.append(f"--backend-config=tensorrt,plugins={library}")
    return shlex.join(words)


def _container_command(repository: Path, library: str | None, *, with_gpus: bool) -> str:
    plugins = "" if library is None else f" --backend-config=tensorrt,plugins={library}"
    mount = shlex.quote(f"{repository}:{_MOUNTED}:ro")
    ports = "-p 8000:8000 -p 8001:8001"
    gpus = "--gpus all " if with_gpus else ""  # without a GPU, Docker refuses the option
    return f"docker run --rm {gpus}{ports} -v {mount} IMAGE tritonserver --model-repository={_MOUNTED}{plugins}"
