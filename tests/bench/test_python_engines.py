"""What TensorRT's Python package tells of an engine; what it builds and how fast that runs is measured on a GPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from lenet_trt.bench.engine_tool import Engine
from lenet_trt.bench.python_engines import PythonEngines
from lenet_trt.tensorrt.flavors import installed, select

# As the inspector of TensorRT 8.6 writes it: a control character between the ONNX nodes of a layer.
DESCRIPTION = """{"Layers": [{
  "Name": "conv1 + relu1",
  "LayerType": "CaskConvolution",
  "TacticName": "sm50_xmma_conv",
  "Metadata": "[ONNX Layer: conv1]\x1e[ONNX Layer: relu1]"
}]}"""


@pytest.mark.skipif(not installed()["rtx"], reason="TensorRT-RTX is not installed")
def test_layers_are_named_where_the_description_has_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = PythonEngines(select("rtx"), None, (86,))
    loaded = SimpleNamespace(description=lambda: DESCRIPTION, close=lambda: None)
    monkeypatch.setattr(tool, "_loaded", lambda engine: loaded)
    assert tool.layers(Engine(Path("a.engine"), 1.0)) == ["conv1 + relu1: sm50_xmma_conv"]
