"""Find the model behind a trace, and say whether a file is still the model that was traced."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import sha256_file
from lenet_trt.trace.timeline import Timeline


def of_model(timeline: Timeline, model: Path, folder: Path) -> Timeline:
    """Record the model in a timeline that is kept in ``folder``: the path from there, and the content's hash."""
    return replace(timeline, model=os.path.relpath(model, folder), model_sha256=sha256_file(model))


def differs(timeline: Timeline, model: Path) -> bool:
    """Say whether a file is known to differ from the model that was traced."""
    return bool(timeline.model_sha256) and model.is_file() and sha256_file(model) != timeline.model_sha256


def warning(timeline: Timeline, model: Path) -> str | None:
    """Return a warning where the model that the user names is not the one that was traced.

    The hash of an engine says nothing of the ONNX file from which it was built.
    """
    if model.suffix == ".onnx" and Path(timeline.model or "").suffix not in ("", ".onnx"):
        return None
    return (
        f"warning: {model} is not the file that was traced (its SHA-256 differs)" if differs(timeline, model) else None
    )


def find_model(timeline: Timeline, folder: Path) -> tuple[Path | None, str]:
    """Find the ONNX file of a timeline in ``folder``; return None, the reason and the fix where it is missing.

    The function looks where the timeline says, then beside the timeline and in the current folder. For an engine, the
    model is the file from which the engine was built.
    """
    if not timeline.model:
        return None, "the trace does not name its model: give it with --model"
    named = Path(timeline.model)
    places = dict.fromkeys((folder / named, folder / named.name, named, Path(named.name)))
    there = [place for place in places if place.is_file()]
    same = [place for place in there if not differs(timeline, place)]
    if not there:
        return None, f"the model {named.name} is not here: give it with --model"
    if not same:
        return None, f"{named.name} has changed since the trace was made: give the model with --model"
    path = same[0]
    if path.suffix == ".onnx":
        return path, ""
    return _source_of(path)


def _source_of(engine: Path) -> tuple[Path | None, str]:
    from lenet_trt.tensorrt.vouch import vouched

    try:
        return engine.with_name(vouched(engine).onnx.name), ""
    except LenetTrtError as error:
        return None, f"the trace is of {engine.name}, and its ONNX file is not known ({error}): give it with --model"
