"""Real traces and exports of trtexec 8.6.0: LeNet-5 by its own layers, and by our plugin (tests/traces/README.md)."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from documents import ROOT
from lenet_trt.trace.ledger import TERMS, ledger_of
from lenet_trt.trace.readers import timeline_from
from lenet_trt.trace.timeline import Timeline

EXPORTS = ROOT / "docs" / "tensorrt"
LAYERS = ["conv1 + relu1", "pool1", "conv2 + relu2", "pool2", "fc1 + relu3", "fc2 + relu4", "fc3"]


def trace(name: str, folder: Path) -> Timeline:
    path = folder / f"{name}.sqlite"
    path.write_bytes(gzip.decompress((ROOT / "tests" / "traces" / f"tensorrt8_{name}.sqlite.gz").read_bytes()))
    return timeline_from(path)


@pytest.mark.parametrize("name", ["plain_graph", "plain_stream", "plugin_graph", "plugin_stream"])
def test_every_inference_is_one_and_the_ledger_adds_up(name: str, tmp_path: Path) -> None:
    timeline = trace(name, tmp_path)
    assert len(timeline.iterations) == 20
    inside = [activity for activity in timeline.activities if activity.iteration is not None]
    kernels = 1 if name.startswith("plugin") else len(LAYERS)
    assert len([activity for activity in inside if activity.kind == "kernel"]) == 20 * kernels
    books = ledger_of(timeline)
    assert sum(getattr(books.total, term) for term in TERMS) == pytest.approx(books.end_to_end_us)


@pytest.mark.parametrize(("name", "wanted"), [("plain_stream", LAYERS), ("plugin_stream", ["lenet5"])])
def test_kernels_name_their_layers(name: str, wanted: list[str], tmp_path: Path) -> None:
    inside = [each for each in trace(name, tmp_path).activities if each.iteration is not None]
    assert list(dict.fromkeys(each.node for each in inside)) == wanted


def test_the_exports_say_the_same() -> None:
    plain = timeline_from(*(EXPORTS / f"plain-{kind}.json" for kind in ("times", "profile", "layers")))
    assert [activity.node for activity in plain.activities if activity.us] == LAYERS
    assert all("sm80_" in each.name or "sm50_" in each.name for each in plain.activities if each.us)
    plugin = timeline_from(*(EXPORTS / f"plugin-{kind}.json" for kind in ("times", "profile", "layers")))
    assert plain.unprofiled_us is not None
    assert plugin.unprofiled_us is not None
    assert plugin.unprofiled_us < plain.unprofiled_us
