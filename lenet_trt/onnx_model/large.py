"""Check and write models with more weights than one file can have: these lie in a file beside the model.

protobuf, ONNX's checker and the parsers of runtimes take at most 2 GB at once. A model in memory may be larger.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from lenet_trt.errors import LenetTrtError
from lenet_trt.files import atomic_path, write_atomic
from lenet_trt.onnx_model.external import needed_bytes
from lenet_trt.onnx_model.inferred import is_large_weight, without_large_weights

# What may be weights of one file: below protobuf's limit, and that of TensorRT's parser, by the room for all else.
MOST_BYTES = (2 << 30) - (64 << 20)
# Where a tensor may begin, so that the file can be mapped into memory.
_ALIGNMENT = 4096


def refuse_large(path: Path, weight_bytes: int) -> None:
    """Refuse a model that cannot be one file with its weights in it.

    Raises:
        LenetTrtError: it has too many bytes of weights.
    """
    if weight_bytes > MOST_BYTES:
        raise LenetTrtError(
            f"{path} has weights of {weight_bytes:,} bytes; this command takes at most {MOST_BYTES:,}: export it in "
            "fp16, which has half of them, or let `lenet-trt fuse --embed` write a model for trtexec"
        )


def is_large(model: ModelProto) -> bool:
    """Return whether the model cannot be one file with its weights in it."""
    weights = (tensor for tensor in model.graph.initializer if is_large_weight(tensor))
    return sum(needed_bytes(tensor, tensor.name) for tensor in weights) > MOST_BYTES


def check_model(model: ModelProto, *, full_check: bool = False) -> None:
    """Check a model by ONNX's checker, a large one without the elements of its large weights.

    Raises:
        onnx.checker.ValidationError: it is not valid.
        onnx.shape_inference.InferenceError: with ``full_check``: its shapes or types contradict each other.
    """
    onnx.checker.check_model(_light(model) if is_large(model) else model, full_check=full_check)


def _light(model: ModelProto) -> ModelProto:
    """Return the model with its large weights as inputs."""
    light = without_large_weights(model)
    graph = light.graph
    given = {value.name for value in graph.input}
    large = [tensor for tensor in graph.initializer if is_large_weight(tensor)]
    kept = [tensor for tensor in graph.initializer if not is_large_weight(tensor)]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in large
        if tensor.name not in given
    )
    return light


def weights_path(path: Path) -> Path:
    """Return the path of the weights of a large model that is written there."""
    return path.with_name(f"{path.name}.data")


def write_model(path: Path, model: ModelProto) -> None:
    """Write a model, and the large weights of a large one beside it.

    Raises:
        LenetTrtError: it cannot be written.
    """
    if not is_large(model):
        write_atomic(path, model.SerializeToString())
        return
    written = ModelProto()
    written.CopyFrom(model)
    weights = weights_path(path)
    with atomic_path(weights) as temporary, open(temporary, "wb") as file:
        for tensor in written.graph.initializer:
            if is_large_weight(tensor):
                file.write(bytes(-file.tell() % _ALIGNMENT))
                offset = file.tell()
                length = file.write(numpy_helper.to_array(tensor).tobytes())
                _lie_elsewhere(tensor, weights.name, offset, length)
    write_atomic(path, written.SerializeToString())


def _lie_elsewhere(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Say where the elements of a tensor lie, in place of them."""
    kept = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, doc_string=tensor.doc_string)
    kept.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        kept.external_data.add(key=key, value=str(value))
    tensor.CopyFrom(kept)
