"""Open PyTorch: on the CPU, and on the GPU eager, as a CUDA graph, and compiled."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lenet_trt.bench.backends.on_gpu import OnGpu, stream
from lenet_trt.bench.backends.protocol import LabelledBatch, Precision
from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.libraries import TORCH

if TYPE_CHECKING:
    import torch

    Function: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

# Neither mode uses torch.compile's own CUDA graphs: the whole call is captured here, as for every other backend.
COMPILED = "default"
TUNED = "max-autotune-no-cudagraphs"


class CpuSession:
    """Run the network on the CPU with this number of threads; None: torch's default number."""

    def __init__(self, threads: int | None) -> None:
        torch = _torch()
        self._before: int = torch.get_num_threads()
        self._threads = threads or self._before
        self._network = _network("fp32")

    def prepare(self, images: LabelledBatch) -> OnCpu:
        """Return the batch; nothing needs to be prepared."""
        return OnCpu(self._network, images, self._threads)

    def close(self) -> None:
        """Give torch its threads back."""
        _torch().set_num_threads(self._before)


class OnCpu:
    """Run a batch on the CPU."""

    def __init__(self, network: Function, images: LabelledBatch, threads: int) -> None:
        import torch

        self.details = {"threads": threads}
        self._torch = torch
        self._network = network
        self._threads = threads
        self._images = torch.from_numpy(images.host)
        self._logits: Any = None

    def __call__(self) -> None:
        """Run the network."""
        if self._torch.get_num_threads() != self._threads:  # another backend of this process changed it
            self._torch.set_num_threads(self._threads)
        self._logits = self._network(self._images)

    def logits(self) -> NDArray[np.float32]:
        """Run the network and return the logits [n, 10]."""
        self()
        return np.asarray(self._logits.numpy())


class GpuSession:
    """Run the network on the GPU.

    ``captured``: as a CUDA graph. ``compiled``: through torch.compile in this mode; the mode ``COMPILED`` compiles
    once for all batches of more than one image, ``TUNED`` for each batch.
    """

    def __init__(self, precision: Precision = "fp32", *, captured: bool = False, compiled: str | None = None) -> None:
        torch = _torch()
        if not torch.cuda.is_available():
            raise LenetTrtError(f"torch {torch.__version__} sees no CUDA GPU: install a CUDA build of torch")
        from lenet_trt.bench.peers import set_up_torch

        set_up_torch()
        self._torch = torch
        self._before = torch.cuda.current_stream()
        # The stream is set once: entering it in each call would be timed too.
        self._stream = torch.cuda.ExternalStream(stream().handle)
        torch.cuda.set_stream(self._stream)
        network = _network(precision).cuda()
        function: Function = network if precision == "fp32" else lambda x: network(x.half()).float()
        self._details: dict[str, Any] = {}
        self._captured = captured
        if compiled:
            _quiet()
            function = torch.compile(function, dynamic=compiled == COMPILED, fullgraph=True, mode=compiled)
            self._details["mode"] = f"{compiled}, {'any' if compiled == COMPILED else 'this'} batch"
        self._function = function

    def prepare(self, images: LabelledBatch) -> OnGpu:
        """Run once, which compiles, and capture."""
        given = TORCH.wrap(images.device)
        function = self._function

        def submit() -> Any:
            return function(given)

        submit()
        self._stream.synchronize()
        if self._captured:
            from lenet_trt.bench.workload import captured

            return OnGpu(images, captured(submit, self._stream), None, self._details)
        return OnGpu(images, submit, None, self._details)

    def close(self) -> None:
        """Release the network and the memory of its graphs."""
        del self._function
        self._torch.cuda.synchronize()
        self._torch.cuda.set_stream(self._before)
        self._torch.cuda.empty_cache()


def _quiet() -> None:
    """Silence messages of the compiler on which nobody can act."""
    logging.getLogger("torch.utils._sympy.interp").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores for float32", UserWarning)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise LenetTrtError(f"torch is not installed ({error}): pip install torch") from error
    return torch


def _network(precision: Precision) -> Any:
    """Return the trained network; its parameters are constants, so torch records nothing for gradients."""
    import torch

    from lenet_trt.export import load_weights
    from lenet_trt.export.model import lenet5_from_weights

    network = lenet5_from_weights({name: torch.from_numpy(array) for name, array in load_weights().items()})
    return (network if precision == "fp32" else network.half()).eval().requires_grad_(False)
