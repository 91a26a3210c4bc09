"""What a kernel requires of its sizes is checked as soon as they are known, whichever the others are."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from declared_kernels import declared
from lenet_trt.errors import LenetTrtError
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.shapes import UNKNOWN
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.tensorrt.library.embed import embedded

POOL = declared("average_pool3")


@pytest.mark.parametrize(
    ("h", "w", "why"),
    [
        (UNKNOWN, UNKNOWN, None),
        (5, UNKNOWN, None),
        (2, UNKNOWN, r"average_pool3 wants 3 <= h \+ 2 \* pad, and h = 2, pad = 0"),
        (UNKNOWN, 2, r"average_pool3 wants 3 <= w \+ 2 \* pad, and pad = 0, w = 2"),
    ],
)
def test_each_comparison_is_checked_when_its_sizes_are_known(h: int, w: int, why: str | None) -> None:
    shapes = [(UNKNOWN, 6, h, w)]
    if why is None:
        assert POOL.specialize(shapes, ["float32"], {"pad": 0}).types.name == "fp32"
        return
    with pytest.raises(LenetTrtError, match=why):
        POOL.specialize(shapes, ["float32"], {"pad": 0})


def model(h: int | str, w: int | str) -> onnx.ModelProto:
    """An average pool without padding; the size of its result is left to those who run it."""
    made = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[n, 6, {h}, {w}] x) => (float[n, 6, a, b] y) {{
            y = AveragePool<kernel_shape = [3, 3], count_include_pad = 1>(x)
        }}"""
    )
    onnx.checker.check_model(made)
    return made


@pytest.mark.parametrize(
    ("h", "w", "why"),
    [
        ("h", "w", None),
        (5, "w", None),
        (2, "w", r"average_pool3 wants 3 <= h \+ 2 \* pad, and h = 2"),
        ("h", 2, r"average_pool3 wants 3 <= w \+ 2 \* pad, and pad = 0, w = 2"),
    ],
)
def test_fuse_says_why_layers_whose_known_sizes_are_wrong_stay(h: int | str, w: int | str, why: str | None) -> None:
    if why is None:
        assert list(plugin_nodes(fuse(model(h, w), [POOL]).model).values()) == ["average_pool3"]
        return
    with pytest.raises(LenetTrtError, match=why):
        fuse(model(h, w), [POOL])


def test_a_plugin_node_with_wrong_sizes_is_neither_embedded_nor_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(POOL.source_dir.parent))
    fused = fuse(model("h", "w"), [POOL]).model
    fused.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 2
    with pytest.raises(LenetTrtError, match=r"average_pool3 wants 3 <= h \+ 2 \* pad"):
        embedded(fused, ["sm_90"])
    with pytest.raises(LenetTrtError, match=r"average_pool3 wants 3 <= h \+ 2 \* pad"):
        POOL.bind([(3, 6, 2, 9)], ["float32"], {"pad": 0})
