"""Write what a run leaves: the fused models with their sidecars, the record as JSON and the report as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lenet_trt.files import atomic_path
from lenet_trt.optimize.record import SCHEMA
from lenet_trt.optimize.result import Optimized
from lenet_trt.optimize.space import PluginPlan, Space
from lenet_trt.schema import json_text
from lenet_trt.tensorrt.sidecar import FileRecord

RECORD = "optimize.json"
REPORT = "optimize.md"
STATE = "state.json"


def write_optimized(
    folder: Path, stem: str, space: Space, optimized: Optimized, about: Mapping[str, Any]
) -> tuple[list[Path], dict[str, Any]]:
    """Write all files, once all of them are complete; return their paths and the record.

    Raises:
        LenetTrtError: the folder cannot be written; what was there before is unchanged.
    """
    from lenet_trt.optimize.markdown import optimize_report

    contents: dict[Path, bytes] = {}
    models = []
    several = len(optimized.plans()) > 1
    for plan, batches in optimized.plans().items():
        if not plan.pieces:
            continue
        name = f"{stem}.fused{_suffix(batches) if several else ''}.onnx"
        fitted = space.fitted(plan)
        data = fitted.model.SerializeToString()
        contents[folder / name] = data
        sidecar = {
            "schema": SCHEMA,
            "onnx": asdict(FileRecord.of(name, data)),
            "batches": batches,
            "plugins": [asdict(record) for record in fitted.records],
            "times": _times(optimized, plan, batches),
            **about,
        }
        contents[folder / f"{name}.json"] = _json(sidecar)  # NAME.fused.json would be the sidecar of an engine
        models.append({"path": name, "batches": batches, "plan": plan.as_list()})
    record = {"schema": SCHEMA, **about, "models": models, **optimized.as_dict()}
    contents[folder / RECORD] = _json(record)
    contents[folder / REPORT] = optimize_report(record).encode()
    with ExitStack() as stack:
        for path, content in contents.items():
            stack.enter_context(atomic_path(path)).write_bytes(content)
    return list(contents), record


def _suffix(batches: list[int | None]) -> str:
    return "".join(f"-n{batch}" for batch in batches if batch is not None)


def _times(optimized: Optimized, plan: PluginPlan, batches: list[int | None]) -> list[dict[str, Any]]:
    return [
        {
            "batch": batch,
            "plain": optimized.times[batch][PluginPlan()].as_json(),
            "fused": optimized.times[batch][plan].as_json(),
            "times_faster": optimized.gain(batch),
        }
        for batch in batches
    ]


def _json(value: Mapping[str, Any]) -> bytes:
    return (json_text(value) + "\n").encode()
