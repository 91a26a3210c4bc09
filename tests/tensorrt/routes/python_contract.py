"""Run by test_python.py in a process of its own: the route against the bindings of full TensorRT."""

from __future__ import annotations

import json
import sys
from typing import Any

from declared_kernels import DECLARED, declared
from lenet_trt.kernel import registry
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.layouts import LAYOUTS
from lenet_trt.kernel.tensors import Types
from lenet_trt.tensorrt.data_types import data_types
from lenet_trt.tensorrt.routes import python
from tensorrt_stubs import load_bindings

trt = load_bindings()
NAMES = data_types(trt)


def described(dtypes: list[str], layout: Any) -> list[Any]:
    entries = []
    for dtype in dtypes:
        entry = trt.DynamicPluginTensorDesc()
        entry.desc.type, entry.desc.format = NAMES[dtype], layout
        entries.append(entry)
    return entries


def check(kernel: Kernel, types: Types) -> None:
    creator = python._classes(trt)[0](kernel)
    assert [field.name for field in creator.field_names] == [a.name for a in kernel.attributes]
    last = {a.name: a.checked(a.examples[-1]) for a in kernel.attributes}
    arrays = python.stored_arrays(kernel, last)
    fields = python.plugin_fields(trt, kernel, arrays)
    plugin = creator.create_plugin("p", fields, trt.TensorRTPhase.BUILD).clone()
    assert plugin.attributes == last
    assert {field.name: field.data[0].item() for field in plugin.get_fields_to_serialize()} == {
        name: data[0].item() for name, data in arrays.items()
    }
    inputs = [types.resolve(tensor.dtype) for tensor in kernel.inputs]
    outputs = [types.resolve(tensor.dtype) for tensor in kernel.outputs]
    assert plugin.get_output_data_types([NAMES[dtype] for dtype in inputs]) == [NAMES[dtype] for dtype in outputs]
    layouts = [LAYOUTS[tensor.layout].tensorrt_name for tensor in (*kernel.inputs, *kernel.outputs)]
    tensors = described(inputs + outputs, trt.TensorFormat.LINEAR)
    for entry, layout in zip(tensors, layouts, strict=True):
        entry.desc.format = getattr(trt.TensorFormat, layout)
    assert all(plugin.supports_format_combination(i, tensors, len(inputs)) for i in range(len(tensors)))
    assert not plugin.supports_format_combination(0, described(inputs, trt.TensorFormat.CHW4), len(inputs))
    for index, layout in enumerate(layouts):
        tensors[index].desc.format = trt.TensorFormat.HWC8 if layout == "LINEAR" else trt.TensorFormat.LINEAR
        assert not plugin.supports_format_combination(index, tensors, len(inputs))
        tensors[index].desc.format = getattr(trt.TensorFormat, layout)
    if set(inputs) == {"float32"}:  # no kernel reads integers
        mixed = described(["int32", *inputs[1:]], trt.TensorFormat.LINEAR)
        assert not plugin.supports_format_combination(0, mixed, len(inputs))


def main() -> None:
    for operation in ("SUM", "SUB", "PROD", "FLOOR_DIV", "CEIL_DIV", "MIN", "MAX"):
        assert hasattr(trt.DimensionOperation, operation)
    kernels = [*registry.kernels().values(), *map(declared, DECLARED)]
    for kernel in kernels:
        for types in kernel.types:
            check(kernel, types)
    json.dump({"version": trt.__version__, "kernels": [kernel.name for kernel in kernels]}, sys.stdout)


if __name__ == "__main__":
    main()
