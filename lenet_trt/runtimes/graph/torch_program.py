"""Turn an ONNX graph into a list of torch calls: ONNX's operators use torch, plugin nodes use our kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import torch
from onnx import numpy_helper
from torch import Tensor

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.attributes import AttributeValue, stored_values
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.registry import kernel as kernel_named
from lenet_trt.onnx_model.attention import written_out
from lenet_trt.onnx_model.plugin_nodes import plugin_nodes
from lenet_trt.onnx_model.ports import IMAGE_DTYPE, Port, ports
from lenet_trt.runtimes.graph.torch_indices import INDICES
from lenet_trt.runtimes.graph.torch_layers import LAYERS, TorchOperator
from lenet_trt.runtimes.graph.torch_lstm import lstm
from lenet_trt.runtimes.graph.torch_node import HOST_INPUTS, Node
from lenet_trt.runtimes.graph.torch_quantize import QUANTIZERS
from lenet_trt.runtimes.graph.torch_resize import resize
from lenet_trt.runtimes.graph.torch_shapes import SHAPES

OPERATORS: dict[str, TorchOperator] = {**LAYERS, **SHAPES, **INDICES, **QUANTIZERS, "LSTM": lstm, "Resize": resize}
_STANDARD = ("", "ai.onnx")


@dataclass(frozen=True)
class ProgramStep:
    """Hold a node, the function that computes it, and the values that no later node needs."""

    node: Node
    operator: TorchOperator
    host_inputs: frozenset[int]
    done_with: tuple[str, ...]


class TorchProgram:
    """Hold a model with weights on ``device``, and inputs and outputs in the model's order.

    Raises:
        LenetTrtError: an operator or a plugin is unknown here; the message names the node.
    """

    def __init__(self, model: onnx.ModelProto, device: torch.device) -> None:
        model = written_out(_inlined(model), halves=True)
        graph = model.graph
        self.device = device
        self.inputs, self.outputs = ports(model)
        opset = next((entry.version for entry in model.opset_import if entry.domain in _STANDARD), 1)
        arrays = {tensor.name: _host_tensor(tensor) for tensor in graph.initializer}
        nodes = []
        for proto in graph.node:
            if proto.op_type == "Constant" and proto.domain in _STANDARD:
                arrays[proto.output[0]] = _constant(proto)
                continue
            node = _node(proto, opset)
            if node.op in OPERATORS and node.inputs and all(name in arrays for name in node.inputs if name):
                # Computed once on the host, and not in each call: weights that are quantized, sizes that are cast.
                with _named(node):
                    results = _results(OPERATORS[node.op], node, [arrays.get(name) for name in node.inputs])
                arrays.update(zip(node.outputs, results, strict=False))
            else:
                nodes.append(node)
        wanted = {n.inputs[at] for n in nodes for at in HOST_INPUTS.get(n.op, ()) if at < len(n.inputs)}
        self._host = {name: array for name, array in arrays.items() if name in wanted}
        # Integers are usually sizes and indices; one that the GPU needs is moved there once for each shape.
        self._weights = {
            name: array.to(device) if array.is_floating_point() else array for name, array in arrays.items()
        }
        self.steps = list(_steps(nodes, {port.name for port in self.outputs}, set(arrays)))

    def run(
        self,
        inputs: Sequence[Tensor],
        moved: dict[tuple[int, int], Tensor],
        around: Callable[[Node], AbstractContextManager[None]] | None = None,
    ) -> list[Tensor]:
        """Compute the outputs: dense tensors of their own on the device.

        ``moved`` keeps what was copied from the host, so that a second run with inputs of the same shapes copies
        nothing. Each node is computed within ``around(node)``, where given.

        Raises:
            LenetTrtError: a node failed; the message names it.
        """
        values = dict(self._weights)
        for port, tensor in zip(self.inputs, inputs, strict=True):
            values[port.name] = self._pixels(port, tensor)
        for index, step in enumerate(self.steps):
            with _named(step.node), nullcontext() if around is None else around(step.node):
                arguments = list(self._arguments(index, step, values, moved))
                results = _results(step.operator, step.node, arguments)
            values.update(zip(step.node.outputs, results, strict=False))
            del arguments, results
            for name in step.done_with:
                values.pop(name, None)
        taken = {tensor.untyped_storage().data_ptr() for tensor in (*inputs, *self._weights.values())}
        outputs = []
        for index, port in enumerate(self.outputs):
            output = self._on_device(values[port.name], (-1, index), moved).contiguous()
            outputs.append(output.clone() if output.untyped_storage().data_ptr() in taken else output)
            taken.add(output.untyped_storage().data_ptr())
        return outputs

    def one_kernel(self) -> tuple[Kernel, dict[str, AttributeValue], list[Tensor | str]] | None:
        """Return the kernel, where the network is one call of it: with its attributes, and its inputs in order.

        An input is a weight's tensor, or the name of an input of the network.
        """
        node = self.steps[0].node if len(self.steps) == 1 else None
        if node is None or not node.op.startswith(f"{DOMAIN}::"):
            return None
        given = [name for name in node.inputs if name not in self._weights]
        if given != [port.name for port in self.inputs] or [*node.outputs] != [port.name for port in self.outputs]:
            return None
        return *_called(node), [self._weights.get(name, name) for name in node.inputs]

    def _pixels(self, port: Port, tensor: Tensor) -> Tensor:
        if port.dtype == IMAGE_DTYPE or tensor.dtype != torch.uint8:
            return tensor
        return (tensor.float() / 255).to(getattr(torch, port.dtype))

    def _arguments(
        self, index: int, step: ProgramStep, values: dict[str, Tensor], moved: dict[tuple[int, int], Tensor]
    ) -> Iterator[Tensor | None]:
        names = step.node.inputs
        plain = [at for at, name in enumerate(names) if name and at not in step.host_inputs]
        on_device = any(values[names[at]].device == self.device for at in plain)
        for at, name in enumerate(names):
            if not name:
                yield None
            elif at in step.host_inputs:
                yield self._host.get(name, values.get(name))
            elif on_device:
                yield self._on_device(values[name], (index, at), moved)
            else:
                yield values[name]

    def _on_device(self, value: Tensor, key: tuple[int, int], moved: dict[tuple[int, int], Tensor]) -> Tensor:
        if value.device == self.device:
            return value
        if key not in moved:
            moved[key] = value.to(self.device)
        return moved[key]


def _steps(nodes: Sequence[Node], outputs: set[str], constants: set[str]) -> Iterator[ProgramStep]:
    last_use = {name: index for index, node in enumerate(nodes) for name in (*node.inputs, *node.outputs)}
    for index, node in enumerate(nodes):
        done = {name for name in (*node.inputs, *node.outputs) if name and last_use[name] == index}
        operator, host_inputs = _operator(node)
        yield ProgramStep(node, operator, host_inputs, tuple(done - outputs - constants))


def _results(operator: TorchOperator, node: Node, arguments: Sequence[Tensor | None]) -> Sequence[Tensor]:
    result = operator(node, *arguments)
    return [result] if isinstance(result, Tensor) else result


@contextmanager
def _named(node: Node) -> Iterator[None]:
    """Name the node in what it raises."""
    try:
        yield
    except LenetTrtError as error:
        raise LenetTrtError(f"{node}: {error}") from error
    except torch.OutOfMemoryError as error:
        raise LenetTrtError(f"{node}: the GPU has not enough memory: use a smaller batch") from error
    except Exception as error:  # torch raises many kinds
        raise LenetTrtError(f"{node} failed: {_first_line(error)}") from error


def _operator(node: Node) -> tuple[TorchOperator, frozenset[int]]:
    if node.op.startswith(f"{DOMAIN}::"):
        return _plugin(node), frozenset()
    if node.op not in OPERATORS:
        raise LenetTrtError(
            f"{node}: the graph runtime has no operator {node.op}; ONNX Runtime may: load it with runtime ort"
        )
    return OPERATORS[node.op], HOST_INPUTS.get(node.op, frozenset())


def _plugin(node: Node) -> TorchOperator:
    """Return the operator of the kernel that a plugin node names, with the node's attributes."""
    from lenet_trt.runtimes.graph.torch_op import op

    kernel, attributes = _called(node)
    call = op(kernel.name)
    return lambda _, *tensors: call(*tensors, **attributes)


def _called(node: Node) -> tuple[Kernel, dict[str, AttributeValue]]:
    """Return the kernel that a plugin node names, and the node's attributes."""
    kernel = kernel_named(node.op.removeprefix(f"{DOMAIN}::"))
    version = node.get("plugin_version", kernel.version)
    if version != kernel.version:
        raise LenetTrtError(
            f"{node} is for version {version} of {kernel.name}, and the installed version is {kernel.version}: "
            "fuse the model again"
        )
    return kernel, stored_values(kernel, {attribute.name: node.get(attribute.name) for attribute in kernel.attributes})


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace calls of functions by their bodies, except where one of our kernels computes the function."""
    plugins = set(plugin_nodes(model).values())
    others = [(f.domain, f.name) for f in model.functions if (f.domain, f.name) not in {(DOMAIN, p) for p in plugins}]
    return onnx.inliner.inline_selected_functions(model, others) if others else model


def _node(proto: onnx.NodeProto, opset: int) -> Node:
    attributes = {entry.name: _attribute(entry) for entry in proto.attribute}
    name = proto.op_type if proto.domain in _STANDARD else f"{proto.domain}::{proto.op_type}"
    return Node(proto.name, name, tuple(proto.input), tuple(proto.output), opset, attributes)


def _attribute(entry: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(entry)
    if isinstance(value, bytes):
        return value.decode()
    if entry.type == onnx.AttributeProto.STRINGS:
        return [text.decode() for text in value]
    return _host_tensor(value) if isinstance(value, onnx.TensorProto) else value


def _constant(proto: onnx.NodeProto) -> Tensor:
    (entry,) = proto.attribute
    if entry.name not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        raise LenetTrtError(f"node {proto.name} (Constant) has a {entry.name}, which is not supported")
    value = _attribute(entry)
    if isinstance(value, Tensor):
        return value
    return torch.tensor(value, dtype=torch.int64 if "int" in entry.name else torch.float32)


def _host_tensor(proto: onnx.TensorProto) -> Tensor:
    array = numpy_helper.to_array(proto)
    if array.dtype.name == "float8_e4m3fn":
        return torch.from_numpy(array.view(np.uint8).copy()).view(torch.float8_e4m3fn)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array, order="C"))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
