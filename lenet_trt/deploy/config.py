"""The configuration of a model in Triton, and its text.

Source: model_config.proto of Triton's repository "common"; the text is Protocol Buffers' text format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lenet_trt.errors import LenetTrtError

MARK = "# Made by lenet-trt deploy triton"
_TYPES = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8",
    "int8": "TYPE_INT8",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
    "bfloat16": "TYPE_BF16",
}


@dataclass(frozen=True)
class TritonTensor:
    """An input or output; ``dims`` without the batch axis where the server batches, -1 for an open axis."""

    name: str
    dtype: str
    dims: tuple[int, ...]

    @property
    def type(self) -> str:
        """Triton's name of the type.

        Raises:
            LenetTrtError: Triton has no such type.
        """
        if self.dtype not in _TYPES:
            raise LenetTrtError(f"{self.name} is {self.dtype}; Triton takes {', '.join(_TYPES)}")
        return _TYPES[self.dtype]


@dataclass(frozen=True)
class ModelConfig:
    """What Triton is told of a model; ``max_batch`` 0: the network's batch is fixed, and requests go one by one.

    ``gpus``: the numbers of the GPUs that hold an instance each (empty: all), None: the CPU. ``warm_up``: the batch
    sizes that run before the first request.
    """

    name: str
    backend: str
    max_batch: int
    inputs: tuple[TritonTensor, ...]
    outputs: tuple[TritonTensor, ...]
    gpus: tuple[int, ...] | None
    instances: int = 1
    queue_delay_us: int = 0
    warm_up: tuple[int, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Write config.pbtxt.

        Raises:
            LenetTrtError: Triton has no such type, or a warm-up has open axes.
        """
        lines = [MARK, f"name: {_quoted(self.name)}", f"backend: {_quoted(self.backend)}"]
        lines.append(f"max_batch_size: {self.max_batch}")
        for kind, tensors in (("input", self.inputs), ("output", self.outputs)):
            lines += [f"{kind} {{ name: {_quoted(each.name)} {_typed(each)} }}" for each in tensors]
        lines.append(f"instance_group {{ {self._group()} }}")
        if self.max_batch:
            lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {self.queue_delay_us} }}")
        for batch in self.warm_up:
            given = " ".join(
                f"inputs {{ key: {_quoted(each.name)} value {{ {_zeros(each)} }} }}" for each in self.inputs
            )
            size = f"batch_size: {batch} " if self.max_batch else ""
            lines.append(f'model_warmup {{ name: "zeros, batch {batch}" {size}{given} }}')
        for key, value in self.parameters.items():
            lines.append(f"parameters {{ key: {_quoted(key)} value {{ string_value: {_quoted(value)} }} }}")
        return "\n".join(lines) + "\n"

    def _group(self) -> str:
        if self.gpus is None:
            return f"count: {self.instances} kind: KIND_CPU"
        chosen = f" gpus: [ {_listed(self.gpus)} ]" if self.gpus else ""
        return f"count: {self.instances} kind: KIND_GPU{chosen}"


def _typed(tensor: TritonTensor) -> str:
    return f"data_type: {tensor.type} dims: [ {_listed(tensor.dims)} ]"


def _zeros(tensor: TritonTensor) -> str:
    if -1 in tensor.dims:
        raise LenetTrtError(
            f"{tensor.name} has open axes besides the batch ([{_listed(tensor.dims)}]), so there is nothing to warm up "
            "with: leave --warm-up out"
        )
    return f"{_typed(tensor)} zero_data: true"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _quoted(text: str) -> str:
    # JSON's escapes of ASCII are those of the text format too, except for \u, which it has only since a late version.
    if not text.isascii() or not text.isprintable():
        raise LenetTrtError(f"{text!r} has letters that config.pbtxt cannot hold; wanted printable ASCII")
    return json.dumps(text)
