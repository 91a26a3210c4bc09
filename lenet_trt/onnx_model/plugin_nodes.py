"""Find the plugin nodes of a model, and read the record of what each replaced (``metadata_props``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from lenet_trt.errors import UsageError
from lenet_trt.schema import checked, parsed

if TYPE_CHECKING:
    import onnx

METADATA_KEY = "lenet_trt.fuse"
# The one operator of the plugin library, whose nodes hold compiled kernels: parsers before TensorRT 10.10 find a plugin
# by the operator's name alone.
OPERATOR = "Kernel"
# The domain of such nodes: the only one in which ONNX Runtime's TensorRT provider offers plugins. TensorRT's parsers
# take the plugin's namespace from an attribute.
LIBRARY_DOMAIN = "trt.plugins"

_WANTED = "what fuse records"


class _Named(TypedDict):
    node: str


class _Entry(_Named, total=False):
    """Type the parts of an entry that the code reads."""

    types: str
    replaced: list[str]


@dataclass(frozen=True)
class Replacement:
    """Hold a plugin node, the nodes that it replaced, and other kernels that would have fitted there."""

    node: str
    kernel: str
    version: str
    types: str
    replaced: tuple[str, ...]
    instead_of: tuple[str, ...]


@dataclass(frozen=True)
class Refusal:
    """Hold a place with a kernel's pattern where the kernel cannot be used.

    ``brief``: the reason in few words, where ``reason`` has many; "": the kernel has none of the network's types.
    """

    kernel: str
    replaced: tuple[str, ...]
    reason: str
    brief: str | None = None


def record(model: onnx.ModelProto, records: Sequence[Replacement]) -> None:
    """Add to what the model has recorded."""
    entry = next((prop for prop in model.metadata_props if prop.key == METADATA_KEY), None)
    if entry is None:
        entry = model.metadata_props.add(key=METADATA_KEY, value="[]")
    entry.value = json.dumps([*recorded(model), *map(asdict, records)])


def recorded(model: onnx.ModelProto) -> list[Mapping[str, Any]]:
    """Read the record of ``fuse`` in a model: one ``Replacement`` for each plugin node.

    Raises:
        LenetTrtError: the record is damaged.
    """
    entries = [prop.value for prop in model.metadata_props if prop.key == METADATA_KEY]
    if not entries:
        return []
    name, fix = f"the model's metadata {METADATA_KEY}", "fuse the original model again"
    data = parsed(entries[0], name, wanted=_WANTED, fix=fix)
    checked(data, list[_Entry], name, wanted=_WANTED, fix=fix)
    return list(data)


def plugin_nodes(model: onnx.ModelProto) -> dict[str, str]:
    """Return the plugin nodes of a model: node name -> kernel name."""
    from lenet_trt.kernel.pattern import DOMAIN

    ours = (node for node in model.graph.node if node.domain == DOMAIN or holds_kernel(node))
    return {node.name or node.output[0]: node.op_type for node in ours}


def holds_kernel(node: onnx.NodeProto) -> bool:
    """Say whether it is a node of the plugin library, with a compiled kernel in it."""
    return (node.domain, node.op_type) == (LIBRARY_DOMAIN, OPERATOR)


def refuse_copy(model: onnx.ModelProto, path: str) -> None:
    """Refuse the copy of a model for the plugin library, which nothing but TensorRT can read.

    Raises:
        UsageError: the model is one.
    """
    if any(map(holds_kernel, model.graph.node)):
        raise UsageError(
            f"{path} is a copy for TensorRT, whose plugin nodes hold compiled kernels (trtexec takes it): give the "
            "fused model that it was made from"
        )


def made_by_fuse(path: Path) -> bool:
    """Say whether a file is a model that ``fuse`` has written."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
        return any(entry.key == METADATA_KEY for entry in model.metadata_props)
    except (OSError, DecodeError, UnicodeDecodeError):
        return False
