"""Build, run and time engines by trtexec, as users of TensorRT do it by hand."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from lenet_trt.bench.engine_tool import Arrays, Engine, EngineModel, EngineTool
from lenet_trt.bench.external_tactics import check_libraries, external_flags, logged
from lenet_trt.bench.python_engines import PythonEngines
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.cuda.gpus import Gpu
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.shapes import Shape
from lenet_trt.profile.trtexec import Trtexec, find_trtexec, loading, network_alone, shapes_option
from lenet_trt.tensorrt.capabilities import capabilities
from lenet_trt.tensorrt.engine import BuildOptions
from lenet_trt.tensorrt.find_library import library_for_build
from lenet_trt.tensorrt.flavors import select
from lenet_trt.tensorrt.layers import layer_text
from lenet_trt.tensorrt.library.embed import embedded
from lenet_trt.tensorrt.readable import readable
from lenet_trt.trace.readers.trtexec_exports import read_outputs, read_trtexec

# TensorRT 8 makes handles of cuBLAS and cuDNN for a plugin, also where only files of their names are there.
_WITHOUT_CUBLAS = (
    "its libcublas is not the real library: put the real one on LD_LIBRARY_PATH, or build without it: "
    "--trtexec-flags tacticSources=-CUDNN,-CUBLAS,-CUBLAS_LT"
)
_SHOWN_LINES = 4
# No network of the suite takes longer; TensorRT 8.6.0 builds a matrix product in two minutes.
_LIMIT_S = 900.0


class TrtexecEngines:
    """Use the tool trtexec, or tensorrt_rtx: see ``EngineTool``.

    ``library``: the plugin library. ``target``: the GPU for which kernels are compiled ("sm_89"). ``flags``: further
    flags of each build. ``package``: builds what needs no flag of the program; it keeps its builder from engine to
    engine, and the program starts one for each.
    """

    runs = True

    def __init__(
        self,
        tool: Trtexec,
        library: Path,
        target: str,
        folder: Path,
        flags: Sequence[str] = (),
        package: EngineTool | None = None,
    ) -> None:
        self._tool, self._library, self._target, self._folder, self._flags = tool, library, target, folder, flags
        self._package = package
        self.weak = "fp16" in tool.options

    def __str__(self) -> str:
        return str(self._tool)

    def built(
        self,
        model: EngineModel,
        engine: Path,
        options: BuildOptions,
        shapes: Sequence[Mapping[str, Shape]],
        *,
        with_plugins: bool,
        external_tactics: bool = False,
    ) -> Engine:
        """Build an engine: see ``EngineTool``."""
        plain = not external_tactics and (with_plugins or not model.weak_flags)
        if self._package is not None and plain and self._package.weak == self.weak:
            loading(self._tool, self._library if with_plugins else None)  # an error where it is no library for it
            return self._package.built(model, engine, options, shapes, with_plugins=with_plugins)
        flavor = "rtx" if self._tool.rtx else "tensorrt"
        can = capabilities(flavor, ".".join(map(str, self._tool.version)))
        if with_plugins:
            content = embedded(model.fused(), [self._target])
        else:
            content = readable(model.weak if self.weak and model.weak is not None else model.typed, can)
        onnx.save(content, file := engine.with_suffix(".onnx"))
        words = [f"--onnx={file}", f"--saveEngine={engine}", self._building(), *self._flags]
        words += self._build_flags(model, options)
        for option, chosen in zip(("minShapes", "optShapes", "maxShapes"), shapes, strict=False):
            words.append(f"--{option}={shapes_option(chosen)}")
        if external_tactics:
            words += external_flags(can, str(self._tool))
        begin = time.monotonic()
        engine.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder) as logs:
            # The exit status is not used: trtexec 8.6 may crash at its end, after it has saved the engine.
            said = self._said(words, with_plugins, logged(Path(logs)) if external_tactics else {})
            if external_tactics:
                check_libraries(Path(logs))
        if not engine.is_file() or not engine.stat().st_size:
            raise LenetTrtError(f"{self._tool} built no engine: {_errors(said)}")
        return Engine(engine, round(time.monotonic() - begin, 1), with_plugins)

    def outputs(self, engine: Engine, inputs: Arrays) -> dict[str, NDArray[np.float64]]:
        """Run an engine on these inputs: see ``EngineTool``."""
        files = []
        for name, array in inputs.items():
            array.tofile(self._folder / f"{name}.bin")
            files.append(f"{name}:{self._folder / f'{name}.bin'}")
        exported = self._folder / "output.json"
        shapes = {name: array.shape for name, array in inputs.items()}
        words = [*self._running(engine, shapes), f"--loadInputs={','.join(files)}", "--warmUp=0", "--duration=0"]
        words += ["--iterations=1", f"--exportOutput={exported}"]
        return read_outputs(self._exported(words, engine, exported), exported.name)

    def timed(self, engine: Engine, shapes: Mapping[str, Shape], iterations: int) -> list[float]:
        """Time an engine after a warm-up of 0.2 s: see ``EngineTool``."""
        exported = self._folder / "times.json"
        words = [*self._running(engine, shapes), "--warmUp=200", "--duration=0", f"--iterations={iterations}"]
        words += [f"--exportTimes={exported}", f"--exportLayerInfo={_layer_file(engine)}"]
        return [1e3 * float(entry["computeMs"]) for entry in json.loads(self._exported(words, engine, exported))]

    def layers(self, engine: Engine) -> list[str]:
        """Name the layers, as exported when the engine was timed: see ``EngineTool``."""
        file = _layer_file(engine)
        found = read_trtexec(file.read_text(encoding="utf-8"), file.name) if file.is_file() else None
        return [] if found is None else [layer_text(layer) for layer in found[1].layers]

    def _build_flags(self, model: EngineModel, options: BuildOptions) -> list[str]:
        """Write the options as this program's release takes them; options that it lacks are left out."""
        flags = [] if options.tf32 else ["noTF32"]
        flags.append(f"profilingVerbosity={options.profiling_verbosity}")
        if options.optimization_level is not None:
            if "builderOptimizationLevel" not in self._tool.options:
                raise LenetTrtError(f"{self._tool} has no optimization level")
            flags.append(f"builderOptimizationLevel={options.optimization_level}")
        if options.timing_cache is not None:
            flags.append(f"timingCacheFile={options.timing_cache}")
        if self.weak:
            flags += ["fp16"] * model.half + ["int8"] * model.int8 + list(model.weak_flags)
        if options.quick_search:
            flags.append("avgTiming=1")
        return [f"--{flag}" for flag in flags if flag.partition("=")[0] in self._tool.options]

    def _building(self) -> str:
        """Return the option that builds without running; TensorRT 8.6 has it under an older name."""
        return "--skipInference" if "skipInference" in self._tool.options else "--buildOnly"

    def _running(self, engine: Engine, shapes: Mapping[str, Shape]) -> list[str]:
        flags = [f"loadEngine={engine.path}", *network_alone(self._tool)]
        if shapes:
            flags.append(f"shapes={shapes_option(shapes)}")
        return [f"--{flag}" for flag in flags]

    def _exported(self, words: Sequence[str], engine: Engine, path: Path) -> str:
        path.unlink(missing_ok=True)
        said = self._said(words, engine.with_plugins)
        if not path.is_file():
            raise LenetTrtError(f"{self._tool} did not run the engine: {_errors(said)}")
        return path.read_text(encoding="utf-8")

    def _said(self, words: Sequence[str], with_plugins: bool, environment: Mapping[str, str] | None = None) -> str:
        plugins = [f"--{flag}" for flag in loading(self._tool, self._library)] if with_plugins else []
        try:
            done = subprocess.run(
                [self._tool.path, *words, *plugins],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_LIMIT_S,
                env={**os.environ, **(environment or {})},
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise LenetTrtError(f"{self._tool.path} does not run: {error}") from error
        return f"{done.stdout}\nits exit status was {done.returncode}"


def trtexec_here(options: SuiteOptions, gpu: Gpu, folder: Path) -> tuple[TrtexecEngines, Path]:
    """Return trtexec for the GPU, and the plugin library that it loads: those of the options, or the ones found here.

    Raises:
        LenetTrtError: one of them is missing.
    """
    tool, library = find_trtexec(options.trtexec), library_for_build(options.library).resolve()
    return trtexec_engines(tool, library, gpu, folder, options.trtexec_flags), library


def trtexec_engines(tool: Trtexec, library: Path, gpu: Gpu, folder: Path, flags: Sequence[str] = ()) -> TrtexecEngines:
    """Return what uses trtexec, with TensorRT's Python package for builds where it is of the same release."""
    return TrtexecEngines(tool, library, f"sm_{gpu.sm}", folder, flags, None if flags else _package(tool, library, gpu))


def _package(tool: Trtexec, library: Path, gpu: Gpu) -> PythonEngines | None:
    try:
        flavor = select("rtx" if tool.rtx else "tensorrt")
    except LenetTrtError:  # not installed, or it does not load
        return None
    release = tuple(map(int, flavor.version.split(".")[:3]))
    if release != tool.version or not flavor.supports(gpu):
        return None
    return PythonEngines(flavor, library, (gpu.sm,) if flavor.can.builds_without_gpu else ())


def _layer_file(engine: Engine) -> Path:
    return engine.path.with_suffix(".layers.json")


def _errors(said: str) -> str:
    # A line that begins with && repeats the command.
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip() and not line.startswith("&&")]
    # Messages of the plugin library name the node and the fix; TensorRT's own messages do not.
    chosen = [line for line in lines if "[E]" in line or "plugin node " in line]
    if not chosen:
        return "; ".join(lines[-_SHOWN_LINES:])
    # The first errors have the cause, the last ones what came of it.
    shown = "; ".join(dict.fromkeys([*chosen[:_SHOWN_LINES], *chosen[_SHOWN_LINES:][-_SHOWN_LINES:]]))
    return f"{_WITHOUT_CUBLAS} ({shown})" if "cublasCreate" in shown else shown
