"""Launch a network that is one kernel of ours: it reads the request and writes the answer where the host sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lenet_trt.cuda.launch import prepare
from lenet_trt.kernel.bind import Bound


class SingleKernel:
    """Hold a call of a kernel, whose weights lie at ``weights``: their addresses by their position among its inputs."""

    def __init__(self, bound: Bound, weights: Mapping[int, int], keep: Any = None) -> None:
        self.bound = bound
        self.weights = weights
        self._keep = keep  # what holds the weights

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], str]]:
        """Return shape and element type of each output."""
        return list(zip(self.bound.output_shapes, self.bound.output_dtypes, strict=True))

    def placed(self, inputs: Sequence[int], outputs: Sequence[int]) -> Callable[[int], None]:
        """Return a launch into a stream, with these addresses of the network's inputs and outputs."""
        launcher = prepare(self.bound)
        pointers = [*self.pointers(inputs), *outputs]
        return lambda stream: launcher(pointers, stream)

    def pointers(self, inputs: Sequence[int]) -> list[int]:
        """Return the addresses of all inputs of the kernel in order, with these for the network's own."""
        given = iter(inputs)
        count = len(self.bound.kernel.inputs)
        return [self.weights[at] if at in self.weights else next(given) for at in range(count)]
