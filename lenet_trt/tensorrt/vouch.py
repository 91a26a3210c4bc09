"""Compare an engine with its sidecar and with this machine, before anything of it is deserialized."""

from __future__ import annotations

from pathlib import Path

from lenet_trt.cuda.gpus import Gpu, first_gpu, gpus, sm_text
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import check_can_read
from lenet_trt.tensorrt.c_bindings import flavor_by_library
from lenet_trt.tensorrt.find_library import library_for_build, library_for_engine
from lenet_trt.tensorrt.flavors import INSTALL, Flavor, installed, select
from lenet_trt.tensorrt.plan_header import WANTED_NETWORK, read_header
from lenet_trt.tensorrt.routes import recorded_route
from lenet_trt.tensorrt.sidecar import Sidecar, read_sidecar, sidecar_path
from lenet_trt.tensorrt.summary import runs_on


def vouched(engine: Path) -> Sidecar:
    """Return the sidecar of an engine, after checking that it describes exactly these bytes.

    Raises:
        LenetTrtError: the file is no engine, there is no sidecar, it describes another engine, or the engine was
            changed.
    """
    check_can_read(engine, WANTED_NETWORK)
    if sidecar_path(engine) == engine:
        raise LenetTrtError(f"{engine} is not an engine: .json is the suffix of an engine's sidecar; name the engine")
    if not sidecar_path(engine).exists():
        read_header(engine)
    sidecar = read_sidecar(sidecar_path(engine))
    if (difference := sidecar.mismatch(engine)) is not None:
        raise LenetTrtError(f"{difference}: the engine was changed or replaced; build it again with --force")
    return sidecar


def engine_obstacle(engine: Path, sidecar: Sidecar, flavor: Flavor, library: Path | None = None) -> str | None:
    """Say why the engine cannot run here with this flavor and this plugin library; return None when it can."""
    built = sidecar.inputs["flavor_version"]
    if flavor.name != sidecar.inputs["flavor"]:
        return f"the engine was built by {sidecar.inputs['flavor']} and {flavor.product} was taken"
    if not _same_version(flavor.version, built):
        return f"the engine was built by version {built} and {flavor.product} is installed: build it again"
    gpu = first_gpu()
    if gpu is None:
        return f"there is no GPU: {gpus().problem}"
    if (reason := gpu_obstacle(sidecar, flavor, gpu)) is not None:
        return reason
    try:
        for name in {entry["route"] for entry in sidecar.plugins}:
            recorded_route(name)
        library_for_engine(engine, sidecar, library)
    except LenetTrtError as error:
        return str(error)
    return None


def _same_version(one: str, other: str) -> bool:
    """Say whether both are the same release; a package's version may have a build number that TensorRT leaves out."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def gpu_obstacle(sidecar: Sidecar, flavor: Flavor, gpu: Gpu) -> str | None:
    """Return why the engine is not for this GPU, or None if it is."""
    inputs = sidecar.inputs
    if not flavor.supports(gpu):
        advice = f"{INSTALL['tensorrt']}, then build with --flavor tensorrt"
    elif inputs["gpu"] is not None and inputs["gpu"] != f"{gpu.name} ({gpu.capability})":
        advice = "build it again here"
    elif gpu.capability not in (inputs["targets"] or map(sm_text, flavor.portable_sms())):
        advice = f"build it with --sm {gpu.capability}"
    else:
        return None
    return f"the engine is for {runs_on(inputs)}, not for the GPU here, {gpu.name} ({gpu.capability}): {advice}"


def flavor_of(sidecar: Sidecar, library: Path | None = None) -> Flavor:
    """Return the flavor that built the engine.

    Where TensorRT's Python package is not here and a plugin library is given, that library runs the engine.

    Raises:
        LenetTrtError: it is not installed.
    """
    name = sidecar.inputs["flavor"]
    if library is not None and name == "tensorrt" and not installed()[name]:
        return flavor_by_library(library_for_build(library))
    return select(name)
