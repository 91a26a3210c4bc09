"""Define the protocol of a runtime: it has inputs and outputs, and runs on the host or prepares calls on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.ports import Port
from lenet_trt.runtimes.arrays import DeviceArray

if TYPE_CHECKING:
    from lenet_trt.runtimes.latency.single import SingleKernel

# Returns memory that the host sees, for outputs that are like these.
Answers: TypeAlias = Callable[[Sequence[DeviceArray]], Sequence[DeviceArray]]


class HostRuntime(Protocol):
    """Run arrays of the host; uint8 images are already divided by 255."""

    name: str
    where: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run once.

        Raises:
            LenetTrtError: the network cannot take these inputs.
        """

    def close(self) -> None:
        """Release what the runtime holds."""


class PreparedCall(Protocol):
    """Hold a prepared call, which reads the same memory each time and writes the same ``outputs``.

    Who prepared it keeps the inputs' memory; the call does not.
    """

    outputs: tuple[DeviceArray, ...]

    def __call__(self, stream: int) -> None:
        """Put the work into a stream; allocate nothing and wait for nothing, unless the runtime has to."""


@runtime_checkable
class DeviceRuntime(Protocol):
    """Run on GPU memory; ``scales_images``: uint8 images are divided on the GPU, so that they travel as bytes.

    ``waits``: a call returns when its work is done, so that no call can be submitted ahead.
    """

    name: str
    scales_images: bool
    waits: bool
    where: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def prepare(self, inputs: Sequence[DeviceArray]) -> PreparedCall:
        """Prepare a call that reads from these addresses; with ``scales_images``, an input may be uint8 images.

        Raises:
            LenetTrtError: the network cannot take these inputs, or fails on them; the message names the node.
        """

    def close(self) -> None:
        """Release what the runtime holds."""


@runtime_checkable
class SharedMemoryRuntime(DeviceRuntime, Protocol):
    """Run on the GPU, on memory that the host sees too, without a copy that the host has to ask for."""

    def one_kernel(self, inputs: Sequence[tuple[Shape, str]]) -> SingleKernel | None:
        """Return the call, where the network is one kernel whose answer can be watched; inputs are shapes and types."""

    def prepare(self, inputs: Sequence[DeviceArray], answers: Answers | None = None) -> PreparedCall:
        """Prepare a call that, with ``answers``, also copies: from these inputs, and to the memory that it gives."""
