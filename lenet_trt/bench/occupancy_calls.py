"""Make calls of LeNet-5 on a stream, for one batch size and backend: ``occupancy`` times them, ``ncu`` counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.cuda.compile import compile_for_launch
from lenet_trt.cuda.driver import Buffer, CudaGraph, Stream, ask, current_context, driver
from lenet_trt.cuda.launch import load_function, prepare
from lenet_trt.cuda.tuned import variant_for
from lenet_trt.errors import LenetTrtError
from lenet_trt.export.geometry import CLASSES, IMAGE_SHAPE
from lenet_trt.export.weights import load_weights
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.registry import kernel
from lenet_trt.kernel.variants import Variant

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Geometry:
    """Describe a launch on this GPU: its blocks and threads, and how many of them the GPU holds at once.

    ``resident``: the number of its blocks that fit on one multiprocessor, from the driver. ``held_threads``: the most
    threads that one multiprocessor holds.
    """

    variant: str
    blocks: int
    block_threads: int
    resident: int
    multiprocessors: int
    held_threads: int

    @property
    def multiprocessors_percent(self) -> float:
        """Return the share of the multiprocessors that can get a block, in percent."""
        return 100 * min(self.blocks, self.multiprocessors) / self.multiprocessors

    @property
    def threads_percent(self) -> float:
        """Return the share of the GPU's threads that this launch occupies at once, in percent."""
        at_once = min(self.blocks, self.resident * self.multiprocessors) * self.block_threads
        return 100 * at_once / (self.multiprocessors * self.held_threads)

    @property
    def waves(self) -> float:
        """Return how many times the launch fills the GPU."""
        return self.blocks / (self.resident * self.multiprocessors)


def geometry(bound: Bound, variant: Variant) -> Geometry:
    """Ask the driver about one call of a kernel."""
    context = current_context()
    launch = bound.specialized.launch(variant)
    sizes = {**bound.axes, **context.sizes}
    x, y, z, shared_bytes = (size.evaluate(sizes) for size in launch.dims[:4])
    threads = int(np.prod(launch.block))
    module = compile_for_launch(bound.specialized, variant, context.sm)
    function = load_function(context, module, shared_bytes)
    resident = ask(
        driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared_bytes),
        f"cannot ask how many blocks of {module.entry} fit",
    )
    attribute = driver().CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
    held = ask(driver().cuDeviceGetAttribute(attribute, context.device), "cannot read the GPU's properties")
    return Geometry(variant.name, x * y * z, threads, int(resident), context.multiprocessors, int(held))


class Ours:
    """Run the whole network as one kernel, without torch.

    ``run`` launches the kernel; ``calls`` replay it as CUDA graphs, one for each input set.
    """

    def __init__(self, types: str, stream: Stream, sets: Sequence[NDArray[np.float32]]) -> None:
        declared = kernel("lenet5")
        trained = load_weights()
        found = declared.types_named(types)
        self.bound = declared.bind_axes({"n": len(sets[0])}, found)
        self.variant = variant_for(self.bound, current_context())
        launcher = prepare(self.bound, self.variant)
        dtypes = {t.name: found.resolve(t.dtype) for t in declared.inputs}
        weights = [
            np.ascontiguousarray(trained[t.name.replace("_", ".")].astype(dtypes[t.name]))
            for t in declared.inputs
            if t.weight
        ]
        placed = [_on_gpu(weight) for weight in weights]
        self._output = Buffer(len(sets[0]) * CLASSES * 4)
        self._stream = stream
        self._keep: list[Any] = [placed]
        self._graphs: list[CudaGraph] = []
        pointers = []
        for images in sets:
            given = _on_gpu(images)
            pointers.append([given.pointer, *(weight.pointer for weight in placed), self._output.pointer])
            launcher(pointers[-1], stream.handle)
            with stream.capture() as graph:
                launcher(pointers[-1], stream.handle)
            self._keep.append(given)
            self._graphs.append(graph)
        self._launch = partial(launcher, pointers[0], stream.handle)

    @property
    def calls(self) -> list[Callable[[], object]]:
        """Return a call for each input set; a call keeps the memory that it reads."""
        # Not kept here: the garbage collector would free such a circle during a capture, which breaks the capture.
        return [partial(self._replay, index) for index in range(len(self._graphs))]

    def run(self) -> None:
        """Launch the kernel, outside of any graph."""
        self._launch()

    def answer(self, count: int) -> NDArray[np.float64]:
        """Return the first ``count`` logits of the first input set."""
        self._launch()
        self._stream.synchronize()
        found = self._output.read().view(np.float32).reshape(-1, CLASSES)
        return found[:count].astype(np.float64)

    def _replay(self, index: int) -> None:
        self._graphs[index].replay(self._stream)


def _on_gpu(array: NDArray[Any]) -> Buffer:
    buffer = Buffer(array.nbytes)
    buffer.write(array)
    return buffer


class Torch:
    """Run the network with PyTorch, one or several kernels for each layer.

    ``run`` launches the kernels; ``calls`` launch them too, or replay them as CUDA graphs where ``graph`` is true.
    """

    def __init__(self, network: torch.nn.Module, graph: bool, stream: Stream, sets: Sequence[NDArray[Any]]) -> None:
        import torch

        self._network, self._stream = network, torch.cuda.ExternalStream(stream.handle)
        with torch.cuda.stream(self._stream):
            self._inputs = [torch.from_numpy(images).cuda() for images in sets]
        self.run()
        self._stream.synchronize()
        self._graphs = [self._captured(x) for x in self._inputs] if graph else []

    @property
    def calls(self) -> list[Callable[[], object]]:
        """Return a call for each input set; a call keeps the memory that it reads."""
        # Not kept here: the garbage collector would free such a circle during a capture, which breaks the capture.
        return [partial(self._call, index) for index in range(len(self._inputs))]

    def run(self) -> None:
        """Launch the kernels, outside of any graph."""
        self._forward(self._inputs[0])

    def answer(self, count: int) -> NDArray[np.float64]:
        """Return the first ``count`` logits of the first input set."""
        found: torch.Tensor = self._forward(self._inputs[0])
        self._stream.synchronize()
        return found[:count].double().cpu().numpy()

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        import torch

        with torch.cuda.stream(self._stream), torch.inference_mode():
            found: torch.Tensor = self._network(x)
            return found

    def _call(self, index: int) -> None:
        import torch

        if not self._graphs:
            self._forward(self._inputs[index])
            return
        with torch.cuda.stream(self._stream):
            self._graphs[index][0].replay()

    def _captured(self, x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        """Capture the network, and return the graph and the tensor that it writes."""
        import torch

        self._forward(x)
        self._stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self._stream), torch.inference_mode():
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                result: torch.Tensor = self._network(x)
            finally:
                graph.capture_end()
        return graph, result


OURS = {"lenet5 kernel": "fp32", "lenet5 kernel, fp16": "fp16_io_fp32"}
TORCH = {"torch eager": False, "torch CUDA graph": True}
BACKENDS = (*OURS, *TORCH)


class Maker:
    """Prepare batches of a backend, on one stream.

    Raises:
        LenetTrtError: there is no GPU.
    """

    def __init__(self) -> None:
        current_context()
        self.stream = Stream()
        self._network: Any = None

    def make(self, backend: str, sets: Sequence[NDArray[np.float32]]) -> Ours | Torch:
        """Prepare one batch size of a backend; each of ``sets`` is images [n, 1, 28, 28] float32.

        Raises:
            LenetTrtError: the backend cannot run here.
        """
        if backend in OURS:
            return Ours(OURS[backend], self.stream, sets)
        return Torch(self._torch_network(), TORCH[backend], self.stream, sets)

    def _torch_network(self) -> Any:
        if self._network is None:
            try:
                import torch
            except ImportError as error:
                raise LenetTrtError(f"torch is not installed ({error}): pip install 'lenet-trt[gpu]'") from error
            if not torch.cuda.is_available():
                raise LenetTrtError(f"torch {torch.__version__} sees no CUDA GPU: install a CUDA build of torch")
            from lenet_trt.export.model import lenet5_from_weights

            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
            weights = {name: torch.from_numpy(array) for name, array in load_weights().items()}
            self._network = lenet5_from_weights(weights).cuda()
        return self._network


def images(batch: int, sets: int, seed: int = 0) -> list[NDArray[np.float32]]:
    """Draw several sets of random images, so that no set is in a cache because another one was read.

    Shapes: each [batch, 1, 28, 28].
    """
    random = np.random.default_rng(seed)
    return [random.random((batch, *IMAGE_SHAPE), dtype=np.float32) for _ in range(sets)]


def exact(batch: NDArray[np.float32]) -> NDArray[np.float64]:
    """Compute the logits in float64."""
    declared = kernel("lenet5")
    trained: Mapping[str, Any] = load_weights()
    weights = [trained[t.name.replace("_", ".")].astype(np.float64) for t in declared.inputs if t.weight]
    return np.asarray(declared.reference(batch.astype(np.float64), *weights))
