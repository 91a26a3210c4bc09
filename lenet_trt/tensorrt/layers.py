"""Read the layers of an engine from TensorRT's engine inspector, in the words of versions 8.6 to 11.

With detailed profiling verbosity a layer has its type, its tensors (dimensions, format and data type) and its kernel;
otherwise it has its name alone. Version 11 tells format and data type in two fields, the others in one.
Source: NVIDIA's TensorRT documentation, "Engine Inspector"; the migration guide from TensorRT 10 to 11.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.types import ELEMENT_TYPES
from lenet_trt.schema import Count

# The first that is found in what a tensor's format says; "Half" and "Float" are words of versions 8 to 10.
_DATA_TYPES = (
    (r"bf16|bfloat16", "bfloat16"),
    (r"fp16|half|float16", "float16"),
    (r"fp8|float8|e4m3", "float8_e4m3fn"),
    (r"fp4|float4|e2m1", "float4_e2m1fn"),
    (r"fp32|float", "float32"),
    (r"uint8", "uint8"),
    (r"int8", "int8"),
    (r"int4", "int4"),
    (r"int32", "int32"),
    (r"int64", "int64"),
    (r"bool", "bool"),
)
_BITS = {"float4_e2m1fn": 4, "int4": 4, **{name: 8 * each.size_bytes for name, each in ELEMENT_TYPES.items()}}
_ONNX = re.compile(r"\[ONNX Layer: (.*?)\](?=[\x1e\x1f\s,]*(?:\[ONNX Layer: |$))", re.DOTALL)
_REFORMAT_OF = re.compile(r"Reformatting CopyNode for (?:Input|Output) Tensor \d+ to (.+)", re.DOTALL)
_PROFILE_SUFFIX = re.compile(r" \[profile \d+\]$")


@dataclass(frozen=True)
class LayerTensor:
    """Hold a tensor that a layer reads or writes: ``shape`` is None and ``dtype`` "" where they are not known."""

    name: str
    shape: tuple[Count, ...] | None
    dtype: str
    stored: str = ""

    @property
    def elements(self) -> int | None:
        """Return the number of its elements."""
        return None if self.shape is None else math.prod(self.shape)

    @property
    def bytes(self) -> int | None:
        """Return the bytes of its elements, without the padding of its format."""
        return None if self.elements is None or not self.dtype else bytes_of(self.elements, self.dtype)


@dataclass(frozen=True)
class EngineLayer:
    """Hold a layer; ``onnx`` are the ONNX nodes in it.

    ``weights`` are the constants that it has inside. ``depth`` is the number of multiply-adds for one element of its
    output; None where the description does not say.
    """

    name: str
    kind: str = ""
    tactic: str = ""
    onnx: tuple[str, ...] = ()
    inputs: tuple[LayerTensor, ...] = ()
    outputs: tuple[LayerTensor, ...] = ()
    weights: tuple[LayerTensor, ...] = ()
    depth: Count | None = None

    @property
    def node(self) -> str:
        """Return the ONNX nodes that it computes, joined as TensorRT joins names, or its own name."""
        return " + ".join(self.onnx) if self.onnx else _PROFILE_SUFFIX.sub("", self.name)

    @property
    def reformats(self) -> bool:
        """Say whether it only changes the format or the type of a tensor, or does nothing."""
        return self.kind in ("Reformat", "NoOp") or is_reformat_layer(self.name)

    @property
    def is_region(self) -> bool:
        """Say whether TensorRT gave a part of the network to its compiler Myelin, which makes kernels of its own."""
        return self.kind.lower() == "myelin" or "ForeignNode[" in self.name or self.name.startswith("__my")

    @property
    def is_plugin(self) -> bool:
        """Say whether it is a plugin: PluginV2, PluginV3."""
        return self.kind.startswith("Plugin")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def plugin_reformats(layers: Sequence[EngineLayer]) -> dict[str, str]:
    """Return the layers that only reformat what a plugin reads or writes, with the plugin's node.

    TensorRT's own layers have kernels for several layouts; a plugin takes the one that it declares. Of two plugins, the
    one that the layer's name says counts, else the one that reads.
    """
    plugins = [layer for layer in layers if layer.is_plugin]
    readers = {tensor.name: layer.node for layer in plugins for tensor in layer.inputs if tensor.name}
    writers = {tensor.name: layer.node for layer in plugins for tensor in layer.outputs if tensor.name}
    nodes = {layer.name: layer.node for layer in plugins}
    found: dict[str, str] = {}
    for layer in layers:
        if not layer.reformats or layer.onnx or layer.is_plugin:
            continue
        told = _REFORMAT_OF.match(layer.name)
        owners = [
            *(nodes[name] for name in (told[1] if told else "",) if name in nodes),
            *(readers[tensor.name] for tensor in layer.outputs if tensor.name in readers),
            *(writers[tensor.name] for tensor in layer.inputs if tensor.name in writers),
        ]
        if owners:
            found[layer.name] = owners[0]
    return found


def is_reformat_layer(name: str) -> bool:
    """Say whether this is TensorRT's name for an added layer that copies a tensor into another format."""
    return name.startswith("Reformatting CopyNode")


def layer_text(layer: EngineLayer) -> str:
    """Name a layer, and its kernel where TensorRT tells which one it took."""
    return f"{layer.name}: {layer.tactic}" if layer.tactic else layer.name


def bytes_of(elements: int, dtype: str) -> int:
    """Return the bytes of this many elements."""
    return (elements * _BITS.get(dtype, 8) + 7) // 8


def layer_from_inspector(row: Any, where: str) -> EngineLayer:
    """Read one layer of the inspector's JSON.

    Raises:
        LenetTrtError: it has no name.
    """
    if isinstance(row, str):
        return EngineLayer(row)
    if not isinstance(row, dict) or not isinstance(row.get("Name"), str):
        raise LenetTrtError(f"{where}: a layer has no Name; wanted what --exportLayerInfo writes")
    inputs, outputs = (tuple(map(_tensor, _list(row.get(key)))) for key in ("Inputs", "Outputs"))
    return EngineLayer(
        row["Name"],
        str(row.get("LayerType") or ""),
        str(row.get("TacticName") or ""),
        tuple(dict.fromkeys(_ONNX.findall(str(row.get("Metadata") or "")))),
        inputs,
        outputs,
        tuple(filter(None, (_weights(name, row.get(name)) for name in ("Weights", "Bias")))),
        _depth(row, inputs),
    )


def _tensor(row: Any) -> LayerTensor:
    if not isinstance(row, dict):
        return LayerTensor(str(row), None, "")
    stored = row.get("Format/Datatype") or " ".join(str(row[key]) for key in ("Format", "Datatype") if row.get(key))
    sizes = row.get("Dimensions")
    # An axis that is open has -1; what it is in a run, the inspector tells only with an execution context.
    dtype = row.get("Datatype") or stored
    return LayerTensor(str(row.get("Name") or ""), _sizes(sizes), data_type(str(dtype)), str(stored))


def data_type(text: str) -> str:
    """Return the element type in a format such as "Channel major FP16 format where channel % 8 == 0"; "" if none."""
    lower = text.lower()
    return next((name for pattern, name in _DATA_TYPES if re.search(pattern, lower)), "")


def _weights(name: str, row: Any) -> LayerTensor | None:
    if not isinstance(row, dict) or not _is_count(row.get("Count")) or not row["Count"]:
        return None
    return LayerTensor(name, (row["Count"],), data_type(str(row.get("Type") or "")))


def _depth(row: Mapping[str, Any], inputs: Sequence[LayerTensor]) -> int | None:
    """Multiply-adds an output: the window and the channels of a convolution, the inner size of a product."""
    shape = inputs[0].shape if inputs else None
    if shape is None:
        return None
    window = _sizes(row.get("Kernel"))
    if row.get("ParameterType") == "Convolution" and window is not None and len(shape) > 1:
        groups = row.get("Groups")
        return math.prod(window) * shape[1] // (int(groups) if _is_count(groups) and groups else 1)
    if row.get("ParameterType") == "MatrixMultiply" and len(shape) > 1:
        return shape[-2] if row.get("MatrixOpA") == "TRANSPOSE" else shape[-1]
    return None


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _sizes(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and all(map(_is_count, value)) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
