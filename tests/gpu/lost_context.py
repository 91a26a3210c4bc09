"""A program: a node of a network stops the GPU. Prints what was told, and what still works after."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.runtimes.load import load

VALUE = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("a", "d")]
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]


def model() -> onnx.ModelProto:
    """d = relu(trap_copy(a + a))."""
    body = helper.make_node("Identity", ["x"], ["y"])
    nodes = [
        helper.make_node("Add", ["a", "a"], ["b"], name="twice"),
        helper.make_node("trap_copy", ["b"], ["c"], name="the_trap", domain=DOMAIN, plugin_version="1"),
        helper.make_node("Relu", ["c"], ["d"], name="last"),
    ]
    function = helper.make_function(DOMAIN, "trap_copy", ["x"], ["y"], [body], OPSETS[:1], ["plugin_version"])
    graph = helper.make_graph(nodes, "trap", VALUE[:1], VALUE[1:])
    return helper.make_model(graph, opset_imports=OPSETS, functions=[function], ir_version=10)


def main(folder: Path) -> None:
    """Fail on the first run of a shape, then compute on the CPU."""
    path = folder / "trap.onnx"
    onnx.save(model(), path)
    network = load(path, "graph")
    print("good", network(np.ones(5, np.float32)).tolist())
    import torch

    try:
        network.prepare(torch.full((7,), -1.0, device="cuda"))
    except LenetTrtError as error:
        print("told", error)
    print("still", load(path, "ort-cpu")(np.full(3, 2, np.float32)).tolist())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
