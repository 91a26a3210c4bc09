"""Check an ONNX model and turn it into bytes that are the same each time."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from lenet_trt.errors import LenetTrtError

# torch's exporter writes opset 18 natively since 2.5, and every TensorRT 10 and 11 reads it.
OPSET = 18
IR_VERSION = 10
PRODUCER = "lenet_trt"
# This package's later stages begin the names of their records in a model with this.
_RECORDED = f"{PRODUCER}."


def checked_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Infer every shape and run ONNX's full check.

    Raises: LenetTrtError when the model is not valid ONNX, or an intermediate shape stays unknown.
    """
    try:
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise LenetTrtError(f"the exported graph {model.graph.name} is not valid: {error}") from error
    known = {value.name for value in (*model.graph.value_info, *model.graph.output)}
    unknown = [name for node in model.graph.node for name in node.output if name not in known]
    if unknown:
        raise LenetTrtError(f"the shape of {unknown[0]} in {model.graph.name} cannot be inferred")
    return model


def model_bytes(model: onnx.ModelProto) -> bytes:
    """Serialize `model` with this package as its producer; equal models give equal bytes."""
    model.producer_name = PRODUCER
    # Without a version: a new release of this package, or of torch, does not change the graph.
    model.producer_version = ""
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def made_by_export(path: Path) -> bool:
    """Say whether a file is a model that this package exported and that no later stage has changed."""
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
        changed = any(str(entry.key).startswith(_RECORDED) for entry in model.metadata_props)
        return model.producer_name == PRODUCER and not changed
    except (OSError, DecodeError, UnicodeDecodeError):
        return False
