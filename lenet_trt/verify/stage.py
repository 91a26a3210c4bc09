"""Choose what builds and runs engines here, measure every workload with it, and write the report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lenet_trt.bench.engine_tool import EngineTool
from lenet_trt.bench.engine_workloads import KERNEL_PREFIX
from lenet_trt.bench.engines import measure_engines
from lenet_trt.bench.python_engines import PythonEngines
from lenet_trt.bench.record import Record
from lenet_trt.bench.suite import SuiteOptions, recording
from lenet_trt.bench.trtexec_engines import trtexec_engines
from lenet_trt.cuda.gpus import first_gpu, gpus
from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import sha256_file
from lenet_trt.profile.trtexec import Trtexec, find_trtexec
from lenet_trt.tensorrt.find_library import DEFAULT_LIBRARY
from lenet_trt.tensorrt.flavors import Flavor, select
from lenet_trt.tensorrt.library.compile import DEFAULT_NAME, compile_library, find_headers, options_from_environment
from lenet_trt.tensorrt.library_file import library_content
from lenet_trt.tensorrt.routes import chosen_route

# The workloads, by the texts of --only: what TensorRT builds for minutes is left to bench engines.
USUAL = ("LeNet-5", KERNEL_PREFIX)
USUAL_QUICK = ("LeNet-5 fp32", KERNEL_PREFIX)


@dataclass(frozen=True)
class VerifyRequest:
    """Describe what to verify, and with what; engines and the plugin library go into ``folder``.

    ``build_only``: nothing is run. ``flavor``: "rtx", "tensorrt", or "auto" for what is here. ``sms``: compute
    capabilities to build for, where the flavor builds for GPUs that are not here. ``library`` and ``headers``: the
    plugin library, or what to make it from. ``trtexec``: the program; None looks for it.
    """

    folder: Path
    build_only: bool = False
    flavor: str = "auto"
    sms: tuple[str, ...] = ()
    library: Path | None = None
    headers: Path | None = None
    trtexec: str | None = None


@dataclass(frozen=True)
class _Release:
    """The TensorRT that a plugin library has to be for."""

    flavor: str
    version: str
    product: str


def verify(request: VerifyRequest, options: SuiteOptions) -> Record:
    """Build, run, compare and time the workloads; what fails is a row with its reason.

    Raises:
        UsageError: no workload has the name that was asked for.
        LenetTrtError: something is missing without which nothing can be verified; says all of it, and the fix.
    """
    if request.sms and not request.build_only:
        raise UsageError("--sm names GPUs that are not here: add --build-only, or leave it out")
    tool, library = chosen_tool(request, options)
    with recording("engines", options) as found:
        if library is not None:
            found.details["library_sha256"] = sha256_file(library)
        if request.sms:
            found.details["targets"] = list(request.sms)
        measure_engines(tool, options, request.folder, found)
    return found.finish()


def chosen_tool(request: VerifyRequest, options: SuiteOptions) -> tuple[EngineTool, Path | None]:
    """Return what builds and runs engines here, and the plugin library that it loads, if it does.

    trtexec is taken where it is, since it is what people compare with; else TensorRT's Python package.

    Raises:
        LenetTrtError: there is neither, or no GPU to run engines on, or no plugin library where one is needed.
    """
    if request.build_only:
        return _python_tool(select(request.flavor), request)
    gpu = first_gpu()
    if gpu is None:
        raise LenetTrtError(
            f"there is no GPU here to run engines on ({gpus().problem}): use a machine with an NVIDIA GPU and its "
            "driver; with --build-only every engine is built here by TensorRT-RTX, and none is run"
        )
    program, why_not = _program(request)
    if program is not None:
        version = ".".join(map(str, program.version))
        library = _library(request, _Release("rtx" if program.rtx else "tensorrt", version, str(program)))
        tool = trtexec_engines(program, library.resolve(), gpu, request.folder, options.trtexec_flags)
        return tool, library
    try:
        flavor = select(request.flavor)
    except LenetTrtError as error:
        raise LenetTrtError(f"there is no TensorRT here: {why_not}; and for Python {error}") from error
    if not flavor.supports(gpu):
        raise LenetTrtError(
            f"{flavor.product} does not run engines on the GPU here, {gpu.name} ({gpu.capability}), and {why_not}: "
            "lenet-trt doctor says what does"
        )
    return _python_tool(flavor, request)


def _program(request: VerifyRequest) -> tuple[Trtexec | None, str]:
    """Find trtexec or tensorrt_rtx; where there is none, or one of the other flavor, say so."""
    try:
        program = find_trtexec(request.trtexec)
    except UsageError:
        raise
    except LenetTrtError as error:
        return None, str(error)
    if request.flavor != "auto" and program.rtx != (request.flavor == "rtx"):
        return None, f"{program.path} is {program}, and --flavor {request.flavor} was asked for"
    return program, ""


def _python_tool(flavor: Flavor, request: VerifyRequest) -> tuple[EngineTool, Path | None]:
    flavor.check_gpu()
    targets = flavor.targets(request.sms)
    try:
        library: Path | None = _library(request, _Release(flavor.name, flavor.version, flavor.product))
    except LenetTrtError:
        # Without headers nobody can make one; releases from 10 on take plugins in another way.
        if request.library or request.headers or chosen_route(flavor, None).needs_library:
            raise
        library = None
    return PythonEngines(flavor, library, targets, runs=not request.build_only), library


def _library(request: VerifyRequest, release: _Release) -> Path:
    """Return the plugin library: the given one, the one here, or one made from TensorRT's headers."""
    given = request.library or (DEFAULT_LIBRARY if DEFAULT_LIBRARY.is_file() and request.headers is None else None)
    if given is not None:
        library_content(given, release.flavor, release.version, release.product)
        return given
    try:
        headers = find_headers(request.headers)
    except LenetTrtError as error:
        raise LenetTrtError(f"the plugin library is needed, and cannot be made: {error}") from error
    made = request.folder / DEFAULT_NAME
    compiler = os.environ.get("CXX") or "g++"
    compile_library(made, headers, compiler=compiler, options=options_from_environment())
    library_content(made, release.flavor, release.version, release.product)
    return made
