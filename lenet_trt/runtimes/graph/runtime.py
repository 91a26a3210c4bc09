"""Run a (fused) ONNX file on any CUDA GPU without TensorRT: torch and our kernels in one CUDA graph for each call."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import onnx

from lenet_trt.cuda.driver import ask, current_context, driver
from lenet_trt.cuda.tuned import variant_for
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.shapes import Shape
from lenet_trt.runtimes.arrays import DeviceArray
from lenet_trt.runtimes.latency.single import SingleKernel
from lenet_trt.runtimes.libraries import TORCH
from lenet_trt.runtimes.protocol import Answers

if TYPE_CHECKING:
    from lenet_trt.runtimes.graph.replay_log import ReplayLog
    from lenet_trt.runtimes.graph.torch_node import Node

# With fewer input bytes the GPU works so briefly that cuDNN's timing is noise: LeNet-5 on an H200 was as fast or slower
# with it for 1 to 34 images (3 to 107 KB), and faster by 14% for 1,024 images and by 21% for 10,000.
_WORTH_TIMING = 256 << 10


def torch_with_gpu() -> Any:
    """Return torch, which runs the operators.

    Raises:
        LenetTrtError: it is missing or sees no GPU.
    """
    try:
        import torch
    except ImportError as error:
        raise LenetTrtError(f"the graph runtime needs torch ({error}): pip install 'lenet-trt[gpu]'") from error
    if not torch.cuda.is_available():
        raise LenetTrtError(f"torch {torch.__version__} sees no CUDA GPU: install a CUDA build of torch")
    return torch


class GraphRuntime:
    """Run networks as CUDA graphs; fp32 is computed without TF32.

    Raises:
        LenetTrtError: torch is missing or sees no GPU, or an operator is unknown here; the message names the node.
    """

    name = "graph"
    scales_images = True
    waits = False

    def __init__(self, model: onnx.ModelProto) -> None:
        torch = torch_with_gpu()
        from lenet_trt.runtimes.graph.torch_program import TorchProgram

        self._device = torch.device("cuda", torch.cuda.current_device())
        with _device_errors("the weights"):
            self._program = TorchProgram(model, self._device)
        self.inputs, self.outputs = self._program.inputs, self._program.outputs
        self.where = f"{torch.cuda.get_device_name(self._device)}, torch {torch.__version__} and our kernels"
        self._stale_memory = False
        self._stream = torch.cuda.Stream(self._device)
        self._capturing = threading.Lock()
        # A profiler sets this to learn to which node each kernel of a replay belongs.
        self.log: ReplayLog | None = None

    def one_kernel(self, inputs: Sequence[tuple[Shape, str]]) -> SingleKernel | None:
        """Return the call, where the network is one kernel whose answer can be watched; inputs are shapes and types."""
        found = self._program.one_kernel()
        if found is None:
            return None
        kernel, attributes, arguments = found
        given = iter(inputs)
        facts = [next(given) if isinstance(each, str) else _facts(each) for each in arguments]
        bound = kernel.bind([shape for shape, _ in facts], [dtype for _, dtype in facts], attributes)
        variant = None if bound.empty else variant_for(bound, current_context())
        if variant is None or not (variant.stores_once and variant.is_one_launch):
            return None
        weights = {at: each.data_ptr() for at, each in enumerate(arguments) if not isinstance(each, str)}
        return SingleKernel(bound, weights, keep=arguments)

    def prepare(self, inputs: Sequence[DeviceArray], answers: Answers | None = None) -> GraphCall | EmptyCall:
        """Capture the network on these inputs, after a run node by node, so that a failure names its node.

        With ``answers`` the inputs lie where the host sees them: the graph copies them to the GPU first, and the
        outputs last to the memory that ``answers`` gives for them.
        """
        import torch

        moved: dict[tuple[int, int], Any] = {}
        tensors = [TORCH.wrap(array) for array in inputs]
        targets = None
        with (
            self._capturing,
            torch.cuda.device(self._device),
            torch.no_grad(),
            at_its_best(timed=sum(array.nbytes for array in inputs) >= _WORTH_TIMING),
            _device_errors("the network"),
        ):
            if self._stale_memory:
                # Each graph has its own memory, which torch gives to other graphs only on request.
                self._stale_memory = False
                torch.cuda.empty_cache()
            with torch.cuda.stream(self._stream):
                outputs = self._program.run(tensors, moved, around=self._finished)
                if all(output.numel() == 0 for output in outputs):
                    return EmptyCall(outputs)
                if answers is not None:
                    targets = [TORCH.wrap(array) for array in answers([TORCH.view(output) for output in outputs])]
                del outputs
                # torch 2.11 keeps about 48 KB of host memory for each capture, even an empty one. The driver's capture
                # into a torch.cuda.MemPool keeps none, but such a pool aborts the process when it is destroyed during
                # a capture, and callers decide when their pools are destroyed.
                graph = torch.cuda.CUDAGraph()
                with _no_garbage_collected():
                    # Other threads may go on working meanwhile.
                    graph.capture_begin(capture_error_mode="thread_local")
                    try:
                        outputs = self._captured(tensors, moved, targets)
                    except BaseException:
                        with suppress(RuntimeError):  # of the broken capture: the first error says why
                            graph.capture_end()
                        raise
                    graph.capture_end()
            return GraphCall(graph, outputs, (moved, self._program, tensors), self._freed)

    def _captured(
        self, tensors: Sequence[Any], moved: dict[tuple[int, int], Any], targets: Sequence[Any] | None
    ) -> list[Any]:
        log = self.log
        if targets is not None:
            outputs = self._program.run([tensor.clone() for tensor in tensors], moved)
            return [target.copy_(output) for target, output in zip(targets, outputs, strict=True)]
        if log is None:
            return self._program.run(tensors, moved)
        log.begin(self._stream.cuda_stream)
        outputs = self._program.run(tensors, moved, around=log.captured)
        log.end()
        return outputs

    @contextmanager
    def _finished(self, node: Node) -> Iterator[None]:
        """Wait for the node, so that its failure is not reported for the next node."""
        with nullcontext() if self.log is None else self.log.named(node):
            yield
            self._stream.synchronize()

    def _freed(self) -> None:
        self._stale_memory = True

    def close(self) -> None:
        """Release the weights and the memory of freed calls; calls that still exist keep what they need."""
        import torch

        del self._program
        torch.cuda.empty_cache()


@contextmanager
def at_its_best(timed: bool = True) -> Iterator[None]:
    """Set cuDNN to fp32 and, where ``timed``, to the algorithm that it times as fastest; restore the settings after.

    Timing costs 2 to 70 ms once for each convolution of a new shape, and GPU memory for the algorithms that are tried
    (on an H200, driver 580, torch 2.11, the Conv case of 10,000 images: 69 ms and 4 GiB; a run then takes 2,003 us
    instead of 2,370 us). Nothing is timed where the caller wants the same bits each time.
    """
    import torch

    cudnn = torch.backends.cudnn
    same_bits = cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
    with cudnn.flags(
        enabled=True,
        benchmark=timed and not same_bits,
        benchmark_limit=cudnn.benchmark_limit,
        deterministic=cudnn.deterministic,
        allow_tf32=False,
    ):
        yield


class EmptyCall:
    """Do nothing, for a batch of 0."""

    def __init__(self, outputs: Sequence[Any]) -> None:
        self.outputs = tuple(TORCH.view(output) for output in outputs)

    def __call__(self, stream: int) -> None:
        """Do nothing."""


class GraphCall:
    """Hold a captured network, which reads its inputs' addresses and writes ``outputs``."""

    def __init__(self, graph: Any, outputs: Sequence[Any], kept: Any, freed: Callable[[], None]) -> None:
        self.outputs = tuple(TORCH.view(output) for output in outputs)
        self._freed = freed
        self._graph = graph
        self._kept = kept  # memory that the graph reads
        self._replay = _replay(graph)

    def __call__(self, stream: int) -> None:
        """Put the graph into the stream."""
        self._replay(stream)

    def __del__(self) -> None:
        if hasattr(self, "_freed"):
            self._freed()


def _facts(tensor: Any) -> tuple[Shape, str]:
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def _replay(graph: Any) -> Callable[[int], None]:
    """Return a function that launches a captured graph into a raw stream."""
    if hasattr(graph, "raw_cuda_graph_exec"):
        executable, launch = graph.raw_cuda_graph_exec(), driver().cuGraphLaunch

        def replay(stream: int) -> None:
            (status,) = launch(executable, stream)
            if status != 0:
                ask((status,), "cannot launch the network's CUDA graph")

        return replay

    def replay_in_torch(stream: int) -> None:  # torch before 2.10 replays only in its current stream
        import torch

        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            graph.replay()

    return replay_in_torch


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Switch off the garbage collector: GPU memory that it frees breaks a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _device_errors(what: str) -> Iterator[None]:
    """Turn torch's errors into ours, and say so when the GPU's context is lost with it."""
    import torch

    try:
        yield
    except (LenetTrtError, RuntimeError) as error:
        try:
            torch.cuda.synchronize()
            lost = ""
        except RuntimeError:
            lost = (
                ". The GPU's context is lost: this process can no longer use the GPU (ONNX Runtime on the CPU, "
                "runtime ort-cpu, still works); run compute-sanitizer on a new one to find the access"
            )
        if isinstance(error, LenetTrtError) and not lost:
            raise
        said = str(error).strip().partition("\n")[0]
        prefix = "" if isinstance(error, LenetTrtError) else f"{what} failed on the GPU: "
        raise LenetTrtError(f"{prefix}{said}{lost}") from error
