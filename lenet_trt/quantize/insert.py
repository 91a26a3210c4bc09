"""Put Q/DQ pairs into a float model by ONNX Runtime's quantization, at the inputs of layers with weights.

TensorRT moves a QuantizeLinear back across pooling and ReLU, so that a pair at each layer's input makes whole chains of
8 bits. A pair behind each layer, ONNX Runtime's default, would stand between a convolution and its ReLU and keep
TensorRT from joining them.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto
from tqdm import tqdm

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.onnx_model.onnx_runtime import onnx_runtime
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.precision import constants, kinds_of
from lenet_trt.onnx_model.quantization import (
    DEQUANTIZE,
    PER_CHANNEL_OPSET,
    QUANTIZE,
    at_opset,
    check_quantization,
    quantized_nodes,
)
from lenet_trt.quantize.data import Calibration

# Layers with weights: their products are what tensor cores do in 8 bits.
LAYERS = ("Conv", "Gemm", "MatMul")
_METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}


def prepared(model: ModelProto) -> ModelProto:
    """Return a copy that can be quantized: every layer has a name of its own, and the operator set has axes of Q/DQ.

    Raises:
        UsageError: the model is quantized already, computes in 16 bits, has plugin nodes, or nothing to quantize.
    """
    if found := quantized_nodes(model):
        raise UsageError(
            f"the model is quantized already (it has {', '.join(found)}): give the float model that it was made from"
        )
    if narrow := kinds_of(model) & {"fp16", "bf16"}:
        raise UsageError(
            f"the model computes in {', '.join(sorted(narrow))}: give the float32 model, and say --fp16 for what is "
            "not quantized"
        )
    if nodes := plugin_nodes(model):
        raise UsageError(f"the model has plugin nodes ({', '.join(nodes)}): quantize the model from before the fusion")
    result = at_opset(model, PER_CHANNEL_OPSET)
    _name(result)
    _make_initializers(result)
    if not layers_of(result):
        raise UsageError(
            f"the model has no layer that is quantized ({', '.join(LAYERS)} with constant float32 weights): 8 bits "
            "would save nothing"
        )
    return result


def layers_of(model: ModelProto) -> list[NodeProto]:
    """Return the layers that are quantized: those whose weights are constants of float32."""
    weights = {name for name, tensor in constants(model.graph) if tensor.data_type == TensorProto.FLOAT}
    return [node for node in model.graph.node if node.op_type in LAYERS and node.input[1] in weights]


def quantized(model: ModelProto, data: Calibration, batch: int, method: str, progress: bool) -> ModelProto:
    """Return a ``prepared`` model with int8 Q/DQ at its layers: symmetric, weights with a scale a channel.

    Raises:
        LenetTrtError: ONNX Runtime cannot run or quantize the model.
    """
    layers = layers_of(model)
    runtime = onnx_runtime()
    from onnxruntime import quantization

    reader = _reader(quantization.CalibrationDataReader, data, batch, progress)
    with tempfile.TemporaryDirectory(prefix="lenet-trt-quantize-") as folder, _quiet():
        path = Path(folder) / "quantized.onnx"
        try:
            quantization.quantize_static(
                copy.deepcopy(model),  # it writes into what it is given
                str(path),
                reader,
                quant_format=quantization.QuantFormat.QDQ,
                activation_type=quantization.QuantType.QInt8,
                weight_type=quantization.QuantType.QInt8,
                per_channel=True,
                calibrate_method=getattr(quantization.CalibrationMethod, _METHODS[method]),
                nodes_to_quantize=[node.name for node in layers],
                op_types_to_quantize=list(LAYERS),
                extra_options={
                    "ActivationSymmetric": True,
                    "WeightSymmetric": True,
                    "QuantizeBias": False,  # TensorRT takes biases in float alone
                    "AddQDQPairToWeight": True,  # TensorRT 8 wants float weights before Q/DQ
                    "OpTypesToExcludeOutputQuantization": list(LAYERS),
                    "TensorQuantOverrides": _one_scale(model, layers, quantization.QuantType.QInt8),
                },
            )
        except Exception as error:  # its exceptions share no base class
            raise LenetTrtError(
                f"ONNX Runtime {runtime.__version__} cannot quantize this model: {' '.join(str(error).split())[:300]}"
            ) from error
        result = onnx.load(path)
    result.producer_name = model.producer_name
    del result.metadata_props[:]
    result.metadata_props.extend(model.metadata_props)
    check_quantization(result)
    return result


def without(model: ModelProto, layers: Sequence[str]) -> ModelProto:
    """Return the quantized model with these layers in float again: they read what was quantized before it was."""
    result = copy.deepcopy(model)
    graph = result.graph
    made = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.name not in layers:
            continue
        for index, name in enumerate(node.input):
            dequantize = made.get(name)
            if dequantize is not None and dequantize.op_type == DEQUANTIZE:
                node.input[index] = made[dequantize.input[0]].input[0]
    _drop_pairs_without_layers(result)
    _drop_unread(graph)
    return result


def _drop_pairs_without_layers(model: ModelProto) -> None:
    """Let what is no layer read floats again where no layer reads the same quantized numbers any more."""
    graph = model.graph
    made = {name: node for node in graph.node for name in node.output}
    layers = {name for node in quantized_layers(model) for name in node.input}
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in made and made[name].op_type == DEQUANTIZE and name not in layers:
                node.input[index] = made[made[name].input[0]].input[0]


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Remove Q/DQ that nothing reads any more, and their constants."""
    for operator in (DEQUANTIZE, QUANTIZE):
        read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
        for node in [n for n in graph.node if n.op_type == operator and not read & set(n.output)]:
            graph.node.remove(node)
    read = {name for node in graph.node for name in node.input}
    for tensor in [tensor for tensor in graph.initializer if tensor.name not in read]:
        graph.initializer.remove(tensor)
    for value in [value for value in graph.value_info if value.name not in {o for n in graph.node for o in n.output}]:
        graph.value_info.remove(value)


def quantized_layers(model: ModelProto) -> list[NodeProto]:
    """Return the layers of the model whose two operands are quantized numbers."""
    given = {node.output[0] for node in model.graph.node if node.op_type == DEQUANTIZE}
    return [node for node in model.graph.node if node.op_type in LAYERS and given.issuperset(node.input[:2])]


def _make_initializers(model: ModelProto) -> None:
    """Put weights that are Constant nodes among the initializers: ONNX Runtime takes others for activations."""
    graph = model.graph
    for node in [node for node in graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"]:
        tensor = node.attribute[0].t
        tensor.name = node.output[0]
        graph.initializer.append(tensor)
        graph.node.remove(node)


def _one_scale(model: ModelProto, layers: Sequence[NodeProto], kind: Any) -> dict[str, list[dict[str, Any]]]:
    """Ask for one scale for the whole of a MatMul's weights that are no matrix.

    ONNX Runtime would give them a scale for each entry of axis 1, along which a product of more axes adds up.
    """
    ranks = {name: len(tensor.dims) for name, tensor in constants(model.graph)}
    names = {node.input[1] for node in layers if node.op_type == "MatMul" and ranks[node.input[1]] != 2}
    return {name: [{"quant_type": kind, "symmetric": True}] for name in names}


def _name(model: ModelProto) -> None:
    """Give each layer a name that no other node has: ONNX Runtime chooses layers by name."""
    taken = {node.name for node in model.graph.node}
    seen: set[str] = set()
    for node in model.graph.node:
        if not node.name or node.name in seen:
            node.name = next(f"{node.op_type}_{i}" for i in range(len(taken) + 1) if f"{node.op_type}_{i}" not in taken)
            taken.add(node.name)
        seen.add(node.name)


def _reader(base: type[Any], data: Calibration, batch: int, progress: bool) -> Any:
    """Return what ONNX Runtime reads calibration data from."""

    class Reader(base):
        def __init__(self) -> None:
            count = -(-len(data) // batch)
            shown = tqdm(data.batches(batch), "Calibrating", count, disable=not progress, leave=False, file=sys.stderr)
            self._batches: Iterator[dict[str, NDArray[Any]]] = iter(shown)

        def get_next(self) -> dict[str, NDArray[Any]] | None:
            return next(self._batches, None)

    return Reader()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep ONNX Runtime's advice to preprocess from the terminal; what it prints goes to stderr."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        root.setLevel(level)
