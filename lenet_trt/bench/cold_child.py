"""Make one cold start: this process classifies one batch by one backend, and prints how long each phase took.

The suite ``cold`` runs it as ``python -m lenet_trt.bench.cold_child BACKEND ...``; it prints JSON. Every backend
takes a NumPy array and gives one, so that copies to the GPU and back are in each of its runs. The driver's C
interface initialises the CUDA driver and makes the context, in phases of their own, before any library does it.
"""

import time

STARTED_NS = time.monotonic_ns()  # before all other imports: until here the interpreter started

# ruff: noqa: E402
import argparse
import ctypes
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# The phases in the order in which they happen; a backend has those that it needs.
PHASES = {
    "python": "Python starts",
    "import": "imports",
    "driver": "driver initialised",
    "context": "context made",
    "libraries": "libraries set up",
    "load": "network read",
    "compile": "kernel compiled or found",
    "module": "machine code loaded",
    "weights": "weights to the GPU",
    "prepare": "made ready for the batch",
    "first": "first run",
}
STEADY_SECONDS = 0.2
LEAST_STEADY_RUNS = 20
_LOADING_MODES = {1: "eager", 2: "lazy"}

OneInference = Callable[[], Any]


class Phases:
    """Collect how long each phase took, in nanoseconds, and facts found on the way."""

    def __init__(self, spawned_ns: int) -> None:
        # What this module imports counts as well.
        self.times_ns = {"python": STARTED_NS - spawned_ns, "import": time.monotonic_ns() - STARTED_NS}
        self.facts: dict[str, Any] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time of the block to the phase."""
        begin = time.monotonic_ns()
        yield
        self.times_ns[name] = self.times_ns.get(name, 0) + time.monotonic_ns() - begin


class Driver:
    """Make the GPU's primary context by the driver's C interface: nothing needs to be imported for it."""

    def __init__(self, phases: Phases) -> None:
        with phases("driver"):
            try:
                self._cuda = ctypes.CDLL("libcuda.so.1")
            except OSError as error:
                raise SystemExit(f"there is no NVIDIA driver on this machine ({error})") from error
            self._check("cuInit", self._cuda.cuInit(0))
        with phases("context"):
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self._check("cuDeviceGet", self._cuda.cuDeviceGet(ctypes.byref(device), 0))
            retained = self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
            self._check("cuDevicePrimaryCtxRetain", retained)
            self._check("cuCtxSetCurrent", self._cuda.cuCtxSetCurrent(context))
        mode = ctypes.c_int()
        self._check("cuModuleGetLoadingMode", self._cuda.cuModuleGetLoadingMode(ctypes.byref(mode)))
        phases.facts["loading"] = _LOADING_MODES.get(mode.value, str(mode.value))
        phases.facts["context_bytes"] = self.used_bytes()

    def used_bytes(self) -> int:
        """Return the GPU memory in use, by this process and others."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._check("cuMemGetInfo", self._cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        return total.value - free.value

    def wait(self) -> None:
        """Wait for all work on the GPU."""
        self._check("cuCtxSynchronize", self._cuda.cuCtxSynchronize())

    def _check(self, name: str, status: int) -> None:
        if status != 0:
            raise SystemExit(f"{name} answers {status}")


def ours(
    phases: Phases, arguments: argparse.Namespace, graph: bool = False, early: bool = False
) -> tuple[OneInference, Driver | None]:
    """Prepare the whole network as one kernel, with this toolkit's launcher and without torch.

    ``graph`` captures the launch; ``early`` makes the context while other things are imported.
    """
    with phases("import"):
        if early:
            from lenet_trt.cuda.driver import begin_context

            begin_context()
        import numpy as np
        from cuda.bindings import driver as _  # noqa: F401 (what launches, imported by the first use otherwise)

        from lenet_trt.cuda.compile import compile_for_launch
        from lenet_trt.cuda.driver import Buffer, Stream, current_context
        from lenet_trt.cuda.launch import prepare
        from lenet_trt.cuda.tuned import variant_for
        from lenet_trt.export.weights import load_weights
        from lenet_trt.kernel.registry import kernel
    driver = Driver(phases)
    with phases("load"):
        images = np.load(arguments.images)
        weights = load_weights()
        declared = kernel("lenet5")
        bound = declared.bind_axes({"n": len(images)}, declared.types_named("fp32"))
        context = current_context()
        variant = variant_for(bound, context)
    with phases("compile"):
        compile_for_launch(bound.specialized, variant, context.sm)
    with phases("module"):
        launcher = prepare(bound, variant)
        driver.wait()
    with phases("weights"):
        arrays = [images, *(weights[t.name.replace("_", ".")] for t in declared.inputs if t.weight)]
        inputs = [Buffer(array.nbytes) for array in arrays]
        for buffer, array in zip(inputs, arrays, strict=True):
            buffer.write(array)
        output = Buffer(len(images) * 10 * 4)
        stream = Stream()
        pointers = [buffer.pointer for buffer in (*inputs, output)]
        driver.wait()
    captured = None
    if graph:
        with phases("prepare"), stream.capture() as captured:
            launcher(pointers, stream.handle)
    phases.facts["variant"] = variant.name

    def run() -> Any:
        inputs[0].write(images)
        if captured is None:
            launcher(pointers, stream.handle)
        else:
            captured.replay(stream)
        stream.synchronize()
        return output.read().view(np.float32).reshape(-1, 10)

    return run, driver


def ours_graph(phases: Phases, arguments: argparse.Namespace) -> tuple[OneInference, Driver | None]:
    """Prepare the same as ``ours``, replayed as a CUDA graph."""
    return ours(phases, arguments, graph=True)


def ours_early(phases: Phases, arguments: argparse.Namespace) -> tuple[OneInference, Driver | None]:
    """Prepare the same as ``ours``; a thread begins the context first, and the phases wait for the rest."""
    return ours(phases, arguments, early=True)


def torch_eager(phases: Phases, arguments: argparse.Namespace) -> tuple[OneInference, Driver | None]:
    """Prepare the network as PyTorch runs it, one layer after the other; the first run times each layer as well."""
    with phases("import"):
        import numpy as np
        import torch

        from lenet_trt.export.model import lenet5_from_weights
        from lenet_trt.export.weights import load_weights
    driver = Driver(phases)
    with phases("libraries"):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.cuda.init()
        torch.cuda.current_blas_handle()
        driver.wait()
    with phases("load"):
        images = np.load(arguments.images)
        network = lenet5_from_weights({name: torch.from_numpy(array) for name, array in load_weights().items()})
    with phases("weights"):
        network.cuda()
        driver.wait()
    layers: dict[str, int] = {}

    def run() -> Any:
        with torch.inference_mode():
            x = torch.from_numpy(images).cuda()
            if not layers:  # the first run waits after each layer: about 10 us each, where the run takes milliseconds
                for name, layer in network.named_children():
                    begin = time.monotonic_ns()
                    x = layer(x)
                    driver.wait()
                    layers[name] = time.monotonic_ns() - begin
                phases.facts["first_by_layer_ns"] = layers
                return x.cpu().numpy()
            return network(x).cpu().numpy()

    return run, driver


def _on_device(
    phases: Phases, arguments: argparse.Namespace, driver: Driver, make: Callable[[Path], Any]
) -> tuple[OneInference, Driver | None]:
    """Prepare any runtime that prepares calls on the GPU."""
    import numpy as np

    from lenet_trt.cuda.driver import Stream, ask
    from lenet_trt.cuda.driver import driver as bindings
    from lenet_trt.kernel.types import numpy_dtype
    from lenet_trt.runtimes.arrays import own_array

    with phases("load"):
        images = np.load(arguments.images)
        runtime = make(arguments.model)
        driver.wait()
    with phases("prepare"):
        cuda = bindings()
        given = own_array(images.shape, "float32")
        ask(cuda.cuMemcpyHtoD(given.pointer, images.ctypes.data, images.nbytes), "cannot copy to the GPU")
        call = runtime.prepare([given])
        stream = Stream()
        driver.wait()
    (output,) = call.outputs

    def run() -> Any:
        ask(cuda.cuMemcpyHtoD(given.pointer, images.ctypes.data, images.nbytes), "cannot copy to the GPU")
        call(stream.handle)
        stream.synchronize()
        result = np.empty(output.shape, numpy_dtype(output.dtype))
        ask(cuda.cuMemcpyDtoH(result.ctypes.data, output.pointer, result.nbytes), "cannot copy from the GPU")
        return result

    return run, driver


def graph_runtime(phases: Phases, arguments: argparse.Namespace) -> tuple[OneInference, Driver | None]:
    """Prepare ``lenet_trt.run`` with the runtime "graph": torch and our kernels, captured in one CUDA graph."""
    with phases("import"):
        import onnx

        from lenet_trt.runtimes.graph import torch_program  # noqa: F401 (brings torch)
        from lenet_trt.runtimes.graph.runtime import GraphRuntime
    driver = Driver(phases)
    return _on_device(phases, arguments, driver, lambda path: GraphRuntime(onnx.load(path)))


def ort_cuda(phases: Phases, arguments: argparse.Namespace) -> tuple[OneInference, Driver | None]:
    """Prepare ONNX Runtime with its CUDA provider; inputs and outputs are bound."""
    with phases("import"):
        import onnx

        from lenet_trt.runtimes.ort import OrtCuda
    driver = Driver(phases)
    return _on_device(phases, arguments, driver, lambda path: OrtCuda(onnx.load(path)))


def tensorrt(phases: Phases, arguments: argparse.Namespace) -> tuple[OneInference, Driver | None]:
    """Prepare a deserialized engine; TensorRT-RTX compiles it for the GPU in the phase "prepare"."""
    with phases("import"):
        from lenet_trt.runtimes.tensorrt import TensorRt
        from lenet_trt.tensorrt.c_bindings import flavor_by_library
    driver = Driver(phases)

    def loaded(path: Path) -> TensorRt:
        flavor = flavor_by_library(arguments.by_library) if arguments.by_library else None
        return TensorRt(path, None, arguments.library, flavor)

    return _on_device(phases, arguments, driver, loaded)


def ort_cpu(phases: Phases, arguments: argparse.Namespace) -> tuple[OneInference, Driver | None]:
    """Prepare ONNX Runtime on the CPU: what a first inference costs without a GPU."""
    with phases("import"):
        import numpy as np
        import onnx

        from lenet_trt.runtimes.ort import OrtCpu
    with phases("load"):
        images = np.load(arguments.images)
        network = OrtCpu(onnx.load(arguments.model))
    return lambda: network.run([images])[0], None


BACKENDS = {
    "ours": ours,
    "ours-graph": ours_graph,
    "ours-early": ours_early,
    "graph-fused": graph_runtime,
    "graph": graph_runtime,
    "torch": torch_eager,
    "ort-cpu": ort_cpu,
    "ort-cuda": ort_cuda,
    "tensorrt": tensorrt,
    "tensorrt-plugins": tensorrt,
}


def main(argv: list[str] | None = None) -> int:
    """Start cold, run, and print what it took."""
    parser = argparse.ArgumentParser(prog="python -m lenet_trt.bench.cold_child")
    parser.add_argument("backend", choices=BACKENDS)
    parser.add_argument("--spawned-ns", type=int, required=True, help="time.monotonic_ns() before this was started")
    parser.add_argument("--images", type=Path, required=True, help="images [n, 1, 28, 28] float32 as .npy")
    parser.add_argument("--library", type=Path, help="the plugin library of an engine with plugins")
    parser.add_argument("--by-library", type=Path, help="the plugin library that runs engines, without a package")
    parser.add_argument("--model", type=Path, help="the ONNX or engine file; ours and torch have the network built in")
    arguments = parser.parse_args(argv)
    phases = Phases(arguments.spawned_ns)
    run, driver = BACKENDS[arguments.backend](phases, arguments)
    with phases("first"):
        answer = run()
    if driver is not None:
        phases.facts["used_bytes"] = driver.used_bytes()
    begin = time.monotonic_ns()
    run()
    second_ns = time.monotonic_ns() - begin
    steady: list[int] = []
    end = time.monotonic_ns() + int(STEADY_SECONDS * 1e9)
    while len(steady) < LEAST_STEADY_RUNS or time.monotonic_ns() < end:
        begin = time.monotonic_ns()
        run()
        steady.append(time.monotonic_ns() - begin)
    import statistics  # here, because the first answer does not need it

    found = {
        "phases_ns": phases.times_ns,
        "second_ns": second_ns,
        "steady_ns": statistics.median(steady),
        "facts": phases.facts,
        "logits": answer.astype(float).tolist(),
    }
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    from lenet_trt.errors import LenetTrtError

    try:
        status = main()
    except LenetTrtError as error:
        raise SystemExit(str(error)) from error
    raise SystemExit(status)
