"""Run torch's ONNX exporter on LeNet-5 and tidy its result (imports torch)."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from lenet_trt.export.geometry import BATCH, IMAGE_SHAPE, INPUT, OUTPUT
from lenet_trt.export.model import lenet5_from_weights
from lenet_trt.export.onnx_file import IR_VERSION, OPSET, checked_model

# ONNX operator of the exporter -> the beginning of the layers' names in the geometry.
LAYER_STEMS = {"Conv": "conv", "Relu": "relu", "MaxPool": "pool", "Gemm": "fc"}
FLATTEN_OPS = ("Reshape", "Flatten")


def exported_lenet5(weights: dict[str, NDArray[np.float32]]) -> onnx.ModelProto:
    """Export LeNet-5 with these weights through `torch.onnx.export`, checked and tidied.

    Shapes: images [n, 1, 28, 28] float32 -> logits [n, 10] float32, with n dynamic.
    """
    network = lenet5_from_weights({name: torch.tensor(value) for name, value in weights.items()})
    # Two images: torch.export takes a batch of one as a constant.
    example = torch.zeros(2, *IMAGE_SHAPE)
    with _quiet():
        program = torch.onnx.export(
            network,
            (example,),
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim(BATCH)},),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    assert program is not None
    return checked_model(tidied(program.model_proto))


def tidied(model: onnx.ModelProto) -> onnx.ModelProto:
    """Name nodes and values after the layers, and drop the exporter's notes about this machine."""
    model.ir_version = IR_VERSION
    model.graph.name = "lenet5"
    model.doc_string = model.graph.doc_string = model.domain = ""
    model.ClearField("model_version")
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    graph = model.graph
    renamed = _renamed_values(graph)
    initializers = {value.name for value in graph.initializer}
    seen: Counter[str] = Counter()
    for node in graph.node:
        node.name = _layer_name(node, seen)
        node.doc_string = ""
        del node.metadata_props[:]
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    # The exporter's shapes stay, because ONNX's inference would lose n at the Reshape; shapes of initializers are
    # dropped, because they stand in the initializers too.
    computed = [value for value in graph.value_info if value.name in renamed]
    del graph.value_info[:]
    graph.value_info.extend(value for value in computed if value.name not in initializers)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = renamed.get(value.name, value.name)
        value.doc_string = ""
        del value.metadata_props[:]
    return model


def _renamed_values(graph: onnx.GraphProto) -> dict[str, str]:
    kept = {value.name for value in graph.output}
    initializers = {value.name for value in graph.initializer}
    renamed: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for node in graph.node:
        layer = _layer_name(node, seen)
        renamed |= {name: f"{layer}_output" for name in node.output if name not in kept}
        if node.op_type in FLATTEN_OPS:
            renamed |= {name: f"{layer}.shape" for name in node.input if name in initializers}
    return renamed


def _layer_name(node: onnx.NodeProto, seen: Counter[str]) -> str:
    if node.op_type in FLATTEN_OPS:
        return "flatten"
    stem = LAYER_STEMS.get(node.op_type, node.op_type.lower())
    seen[stem] += 1
    return f"{stem}{seen[stem]}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's remarks about its own internals (such as a missing torchvision)."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
