"""Keep built engines in a folder: a run that goes on, or that times what was built side by side, builds none again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from lenet_trt.bench.engine_tool import Arrays, Engine, EngineModel, EngineTool
from lenet_trt.cuda.tuning_file import declaration_sha256
from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_bytes, write_atomic
from lenet_trt.kernel.registry import kernel
from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.schema import read_json
from lenet_trt.tensorrt.engine import BuildOptions


@dataclass(frozen=True)
class _Note:
    """Hold what is written beside an engine: the hash of all that it was made of, and the seconds of its build."""

    made_of: str
    build_seconds: float


class KeptEngines:
    """Build by another tool, and take an engine from its file where that was made of the same: see ``EngineTool``.

    An engine depends on its models, kernels and options, and on ``here``: the builder's flags, the GPU, and the hash of
    the plugin library.
    """

    def __init__(self, tool: EngineTool, here: Mapping[str, object]) -> None:
        self.runs, self.weak = tool.runs, tool.weak
        self._tool, self._here = tool, sorted(here.items())

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
        """Return the engine in this file where it was made of the same, or build it: see ``EngineTool``."""
        models = [model.fused()] if with_plugins else [model.typed, *([] if model.weak is None else [model.weak])]
        made_of = self._made_of(models, model, replace(options, timing_cache=None), shapes, external_tactics)
        note = engine.with_suffix(".made.json")
        if engine.is_file() and (before := _read(note)) is not None and before.made_of == made_of:
            return Engine(engine, before.build_seconds, with_plugins)
        note.unlink(missing_ok=True)
        found = self._tool.built(
            model, engine, options, shapes, with_plugins=with_plugins, external_tactics=external_tactics
        )
        # Written last: without it the engine counts as one that was not finished.
        write_atomic(note, json.dumps(asdict(_Note(made_of, found.build_seconds))).encode())
        return found

    def outputs(self, engine: Engine, inputs: Arrays) -> dict[str, NDArray[np.float64]]:
        """Run an engine on these inputs: see ``EngineTool``."""
        return self._tool.outputs(engine, inputs)

    def timed(self, engine: Engine, shapes: Mapping[str, Shape], iterations: int) -> list[float]:
        """Time an engine: see ``EngineTool``."""
        return self._tool.timed(engine, shapes, iterations)

    def layers(self, engine: Engine) -> list[str]:
        """Name the layers: see ``EngineTool``."""
        return self._tool.layers(engine)

    def _made_of(self, models: Sequence[onnx.ModelProto], model: EngineModel, *how: object) -> str:
        names = {name for each in models for name in plugin_nodes(each).values()}
        facts = [
            *(str(self._tool), self._here, model.half, model.int8, list(model.weak_flags), *how),
            [(name, declaration_sha256(kernel(name))) for name in sorted(names)],
            [sha256_bytes(each.SerializeToString(deterministic=True)) for each in models],
        ]
        return sha256_bytes(repr(facts).encode())


def _read(note: Path) -> _Note | None:
    """Read what is beside an engine; None where nothing usable is there, and the engine is built again."""
    try:
        return read_json(note, _Note, wanted="what an engine was made of", fix="delete it")
    except LenetTrtError:
        return None
