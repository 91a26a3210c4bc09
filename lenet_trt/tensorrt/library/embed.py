"""The TensorRT copy of a fused model: every plugin node carries what the plugin library needs to run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from lenet_trt.cuda.compile import compile_ahead, compile_variant, nvrtc_version
from lenet_trt.cuda.machine import machine_of
from lenet_trt.cuda.tuned import choices_for
from lenet_trt.cuda.tuning_file import Tuning, check_declaration
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import Kernel, Variant
from lenet_trt.kernel.bind import Specialized
from lenet_trt.kernel.dims import as_dim
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.kernel.registry import kernel as kernel_named
from lenet_trt.kernel.saturate import is_quantized
from lenet_trt.kernel.shapes import UNKNOWN, Shape
from lenet_trt.kernel.types import numpy_dtype
from lenet_trt.onnx_model.inferred import Types, declared_types, inferred, note
from lenet_trt.onnx_model.large import check_model
from lenet_trt.onnx_model.plugin_nodes import LIBRARY_DOMAIN, OPERATOR, holds_kernel
from lenet_trt.onnx_model.precision import constants
from lenet_trt.onnx_model.quantization import write_zero_points
from lenet_trt.onnx_model.shapes import chosen_attributes
from lenet_trt.tensorrt.library.encode import EncodedVariant, TunedGpu, encode
from lenet_trt.tensorrt.library.sizes import KnownSizes, sizes_of
from lenet_trt.tensorrt.library.targets import compiling_for

OPERATOR_VERSION = "1"
DATA_ATTRIBUTE = "data"
# What the parser of TensorRT 8.6 is documented for. Source: onnx-tensorrt 8.6, README.
_OPSET, _IR_VERSION = 17, 8


@dataclass(frozen=True)
class TensorType:
    """The shape (-1: unknown) and the element type of a tensor of the model."""

    shape: Shape
    dtype: str


def embedded(
    model: onnx.ModelProto,
    targets: Sequence[str],
    nvrtc: str | None = None,
    tunings: Sequence[Tuning] = (),
    progress: bool = False,
) -> onnx.ModelProto:
    """Make the TensorRT copy of a fused model; ``targets`` are "sm_90" for machine code, "compute_80" for PTX.

    Each plugin node becomes one of the plugin library's, with its kernel compiled for the targets. The functions that
    let it run elsewhere are left out, since parsers before TensorRT 10.7 prefer them to plugins. ``nvrtc``: see
    ``targets.compiling_for``. The copy has the tuned choices of the GPU here, and of ``tunings`` from other GPUs.
    ``progress``: see ``compile_ahead``.

    Raises:
        LenetTrtError: the model has no plugin node, or one whose kernel, sizes or types do not fit.
    """
    if any(map(holds_kernel, model.graph.node)):
        raise LenetTrtError("the model is a TensorRT copy already: embed the fused model that it was made from")
    if not any(node.domain == DOMAIN for node in model.graph.node):
        raise LenetTrtError("the model has no plugin node: fuse it first, with --plugins")
    values = _values(model)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    with compiling_for(targets, nvrtc):
        plans = [_planned(node, values, targets) for node in result.graph.node if node.domain == DOMAIN]
        compile_ahead((each for plan in plans for each in plan.to_compile()), progress=progress)
        for plan in plans:
            plan.node.CopyFrom(_library_node(plan, targets, tunings))
        _words_of_constants(result, model)
    # The parser of TensorRT 8 reads no DequantizeLinear without one.
    write_zero_points(result, {name: _elem_type(value) for name, value in values.items()})
    others = [function for function in model.functions if function.domain != DOMAIN]
    del result.functions[:]
    result.functions.extend(others)
    _for_onnx_runtime(result, values)
    _for_older_parsers(result)
    check_model(result)
    return result


@dataclass(frozen=True)
class _Plan:
    """Hold a plugin node, its inputs and its kernel for them, the sizes that are known, and each variant's targets."""

    node: onnx.NodeProto
    inputs: Sequence[TensorType]
    specialized: Specialized
    sizes: KnownSizes
    variants: Sequence[tuple[Variant, Sequence[str]]]

    def to_compile(self) -> Iterator[tuple[Specialized, Variant, str]]:
        """Yield what has to be compiled."""
        for variant, targets in self.variants:
            yield from ((self.specialized, part, target) for part in variant.parts for target in targets)


def _planned(node: onnx.NodeProto, values: Mapping[str, TensorType], targets: Sequence[str]) -> _Plan:
    """Find what a plugin node of a fused model needs.

    Raises:
        LenetTrtError: the kernel is not for these inputs, or has no variant for a target.
    """
    unknown = [value for value in node.input if value not in values]
    if unknown:
        raise LenetTrtError(
            f"{_name(node)}: the shape or type of {unknown[0]} is not known: run onnx.shape_inference first"
        )
    inputs = [values[value] for value in node.input]
    kernel, shapes = kernel_named(node.op_type), [value.shape for value in inputs]
    specialized = kernel.specialize(shapes, [value.dtype for value in inputs], chosen_attributes(kernel, node))
    sizes = sizes_of(specialized, shapes)
    return _Plan(node, inputs, specialized, sizes, usable(specialized, sizes, targets))


def _data(plan: _Plan, targets: Sequence[str], tunings: Sequence[Tuning]) -> bytes:
    """Encode a plugin node with its kernel compiled for the targets; narrow weights are told as words of int32."""
    specialized, kernel = plan.specialized, plan.specialized.kernel
    variants = [
        EncodedVariant(
            variant, tuple(tuple(compile_variant(specialized, part, t) for t in chosen) for part in variant.parts)
        )
        for variant, chosen in plan.variants
    ]
    tuned = tuned_gpus(kernel, targets, tunings)
    words = frozenset(name for name, _ in _narrow_weights(kernel, plan.inputs))
    return encode(_name(plan.node), specialized, plan.sizes, variants, _cuda(), tuned, words)


def _name(node: onnx.NodeProto) -> str:
    return str(node.name or node.output[0])


def _narrow_weights(kernel: Kernel, inputs: Sequence[TensorType]) -> list[tuple[str, int]]:
    """Return the weights of 8 bits, and of 16 in a kernel of floats, each with its position among the inputs."""
    return [
        (tensor.name, index)
        for index, (tensor, value) in enumerate(zip(kernel.inputs, inputs, strict=True))
        if tensor.weight and (is_quantized(value.dtype) or tensor.dtype in ("float16", "bfloat16"))
    ]


def _words_of_constants(result: onnx.ModelProto, model: onnx.ModelProto) -> None:
    """Give the nodes of the copy their narrow weights as words of int32, with zeros at the end.

    Raises:
        LenetTrtError: such a weight is no constant.
    """
    known = dict(constants(result.graph))
    replaced: set[str] = set()
    for node, fused in zip(result.graph.node, model.graph.node, strict=True):
        if fused.domain != DOMAIN:
            continue
        types = [_tensor_type(known[name]) if name in known else TensorType((), "") for name in fused.input]
        for weight, index in _narrow_weights(kernel_named(fused.op_type), types):
            name = f"{fused.input[index]}.words"
            if fused.input[index] not in known:
                raise LenetTrtError(f"{_name(fused)}: {weight} is computed in the network; make it a constant")
            if name not in known:
                array = (
                    np.ascontiguousarray(numpy_helper.to_array(known[fused.input[index]])).view(np.uint8).reshape(-1)
                )
                padded = np.pad(array, (0, -len(array) % 4)).view("<i4")
                known[name] = numpy_helper.from_array(padded.astype(np.int32), name)
                result.graph.initializer.append(known[name])
            replaced.add(fused.input[index])
            node.input[index] = name
    unread = replaced - {name for node in result.graph.node for name in node.input}
    for tensor in [each for each in result.graph.initializer if each.name in unread]:
        result.graph.initializer.remove(tensor)


def _elem_type(value: TensorType) -> int:
    return int(helper.np_dtype_to_tensor_dtype(numpy_dtype(value.dtype)))


def _tensor_type(tensor: onnx.TensorProto) -> TensorType:
    return TensorType(tuple(tensor.dims), _numpy_name(tensor.data_type))


def tuned_gpus(kernel: Kernel, targets: Sequence[str], tunings: Sequence[Tuning]) -> list[TunedGpu]:
    """Return what was measured of a kernel on GPUs of the targets: on the one here, and on others by ``tunings``.

    Raises:
        LenetTrtError: one of ``tunings`` is for another version of the kernel.
    """
    here = machine_of()
    found = {here: choices_for(kernel, here)} if here is not None else {}
    for tuning in tunings:
        if tuning.kernel == kernel.name:
            check_declaration(tuning, kernel, f"the record of {tuning.machine}")
            found[tuning.machine] = tuning.choices
    return [
        TunedGpu(machine.gpu, machine.sm, machine.multiprocessors, choices)
        for machine, choices in found.items()
        if choices and {f"sm_{machine.sm}", f"compute_{machine.sm}"} & set(targets)
    ]


def usable(specialized: Specialized, sizes: KnownSizes, targets: Sequence[str]) -> list[tuple[Variant, list[str]]]:
    """Find the variants that the known sizes allow, each with those of the targets that it is for.

    Raises:
        LenetTrtError: a target has none.
    """
    kernel, found = specialized.kernel, []
    for variant in kernel.variants:
        chosen = [target for target in targets if _is_for(variant, specialized, target)]
        if chosen and sizes.decided(variant.when) is not False:
            found.append((variant, chosen))
    for target in targets:
        if not any(target in chosen for _, chosen in found):
            raise LenetTrtError(f"{kernel.name} has no variant for {target}: leave that target out")
    return found


def _is_for(variant: Variant, specialized: Specialized, target: str) -> bool:
    """Whether the variant runs there; PTX is for newer GPUs too, which one for a single architecture is not."""
    kind, _, sm = target.partition("_")
    return specialized.supports(variant, int(sm)) and not (variant.only_sm and kind == "compute")


def _library_node(plan: _Plan, targets: Sequence[str], tunings: Sequence[Tuning]) -> onnx.NodeProto:
    node, data = plan.node, _data(plan, targets, tunings)
    result = helper.make_node(
        OPERATOR,
        node.input,
        node.output,
        name=_name(node),
        domain=LIBRARY_DOMAIN,
        plugin_version=OPERATOR_VERSION,
        plugin_namespace=DOMAIN,
    )
    tensor = numpy_helper.from_array(np.frombuffer(data, dtype=np.int8), DATA_ATTRIBUTE)
    result.attribute.append(helper.make_attribute(DATA_ATTRIBUTE, tensor))
    return result


def node_bytes(node: onnx.NodeProto) -> bytes:
    """Return the data of a plugin node of a TensorRT copy; nothing for any other node."""
    if not holds_kernel(node):
        return b""
    return next((bytes(numpy_helper.to_array(each.t)) for each in node.attribute if each.name == DATA_ATTRIBUTE), b"")


def _values(model: onnx.ModelProto) -> dict[str, TensorType]:
    """What is known of every tensor, those between plugin nodes included."""
    weights = {tensor.name: _tensor_type(tensor) for tensor in model.graph.initializer}
    return {**weights, **_known(declared_types(inferred(model, _declared_types).graph))}


def _declared_types(node: onnx.NodeProto, types: Types) -> Types:
    """What the declaration says of a plugin node's outputs, where enough is known of its inputs."""
    values = _known({name: types[name] for name in node.input if name in types})
    if node.domain != DOMAIN or not all(name in values for name in node.input):
        return {}
    return {name: _type_proto(value) for name, value in _outputs(node, values)}


def _type_proto(value: TensorType) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(_elem_type(value), [None if s == UNKNOWN else s for s in value.shape])


def _known(types: Types) -> dict[str, TensorType]:
    values = {}
    for name, each in types.items():
        kind = each.tensor_type
        if kind.HasField("shape") and kind.elem_type != onnx.TensorProto.UNDEFINED:
            shape = tuple(dim.dim_value if dim.HasField("dim_value") else UNKNOWN for dim in kind.shape.dim)
            values[name] = TensorType(shape, _numpy_name(kind.elem_type))
    return values


def _outputs(node: onnx.NodeProto, values: Mapping[str, TensorType]) -> Iterator[tuple[str, TensorType]]:
    """What the kernel's declaration says of its outputs."""
    kernel = kernel_named(node.op_type)
    inputs = [values[name] for name in node.input]
    shapes = [value.shape for value in inputs]
    specialized = kernel.specialize(shapes, [value.dtype for value in inputs], chosen_attributes(kernel, node))
    sizes = sizes_of(specialized, shapes)
    for name, tensor in zip(node.output, kernel.outputs, strict=True):
        dims = [sizes.substituted(as_dim(size)) for size in tensor.shape]
        shape = tuple(dim.evaluate({}) if not dim.axes else UNKNOWN for dim in dims)
        yield name, TensorType(shape, specialized.types.resolve(tensor.dtype))


def _for_onnx_runtime(model: onnx.ModelProto, values: Mapping[str, TensorType]) -> None:
    """Name the domain of the nodes, and the types of their outputs: its TensorRT provider knows the name alone."""
    for entry in model.opset_import:
        if entry.domain == DOMAIN:
            entry.domain = LIBRARY_DOMAIN
    outputs = {name for node in model.graph.node if holds_kernel(node) for name in node.output}
    untold = outputs & values.keys() - declared_types(model.graph).keys()
    note(model.graph, {name: _type_proto(values[name]) for name in untold})


def _for_older_parsers(model: onnx.ModelProto) -> None:
    """Say an older opset where that changes no operator, and an IR version that TensorRT 8.6 knows."""
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx") and entry.version > _OPSET:
            plain = {node.op_type for node in model.graph.node if node.domain in ("", "ai.onnx")}
            if all(onnx.defs.get_schema(name, entry.version).since_version <= _OPSET for name in plain):
                entry.version = _OPSET
    if not model.functions:
        model.ir_version = min(model.ir_version, _IR_VERSION)


def _cuda() -> int:
    """The CUDA version of the compiler, as the driver numbers its own: 13000."""
    major, minor = nvrtc_version().split(".")
    return 1000 * int(major) + 10 * int(minor)


def _numpy_name(elem_type: int) -> str:
    return str(np.dtype(helper.tensor_dtype_to_np_dtype(elem_type)).name)
