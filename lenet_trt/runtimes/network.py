"""Run a loaded network: NumPy in gives NumPy out, a GPU array gives one of the same library, on its stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lenet_trt.errors import LenetTrtError
from lenet_trt.onnx_model.ports import Port
from lenet_trt.runtimes.libraries import Library, library_of
from lenet_trt.runtimes.on_device import OnDevice, Prepared, single
from lenet_trt.runtimes.pixels import scaled_pixels
from lenet_trt.runtimes.protocol import DeviceRuntime, HostRuntime

if TYPE_CHECKING:
    from lenet_trt.runtimes.latency.path import LatencyPath
    from lenet_trt.runtimes.latency.resident import ResidentPath


class Network:
    """Hold a network and its runtime; safe to call from several threads.

    ``runtime``: "tensorrt", "graph" or "ort". ``where``: what it runs on. ``reason``: why the runtime was chosen.
    """

    def __init__(self, implementation: HostRuntime | DeviceRuntime, reason: str) -> None:
        self.implementation = implementation
        self.runtime = implementation.name
        self.where = implementation.where
        self.reason = reason
        self._host: HostRuntime | None = None
        self._device: OnDevice | None = None
        if isinstance(implementation, DeviceRuntime):
            self._device = OnDevice(implementation)
        else:
            self._host = implementation

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Return the inputs of the network, in order."""
        return self.implementation.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Return its outputs, in order."""
        return self.implementation.outputs

    @property
    def on_device(self) -> DeviceRuntime | None:
        """Return the runtime if it computes on the GPU."""
        return self._device.implementation if self._device is not None else None

    def __call__(self, *batch: Any, stream: Any = None) -> Any:
        """Run once: take one array for each input, on the host or on the GPU; return one result, or a tuple of several.

        An input that is a batch of images may also be uint8 pixels, which are divided by 255 (on the GPU only by the
        runtime "graph"). Arrays on the GPU are read where they lie, on ``stream`` (torch, CuPy, PyCUDA, Numba or a raw
        handle), by default the current stream of their library; results are ready in that stream's order. NumPy results
        are ready at return.

        Raises:
            LenetTrtError: the network does not take the inputs, or the device fails; the message names the node.
        """
        device = self._device
        if device is not None and (results := device.known(batch, stream)) is not None:
            return single(results)
        libraries = self._libraries(batch)
        if libraries is None:
            return single(self._on_host(batch))
        if device is None:
            raise LenetTrtError(
                f"the inputs are on the GPU and {self.where} computes on the host: copy them (.cpu(), .get()), "
                "or load the network with another runtime"
            )
        return single(device.call(libraries, batch, stream))

    def prepare(self, *batch: Any, stream: Any = None) -> Prepared:
        """Prepare a call that reads these arrays each time and writes the same outputs, with the least overhead.

        Raises:
            LenetTrtError: the same as for a call, or the runtime computes on the host.
        """
        libraries = self._libraries(batch)
        if libraries is None or self._device is None:
            raise LenetTrtError(f"prepare() takes arrays on the GPU, and a runtime on the GPU (this one: {self.where})")
        return self._device.prepared(libraries, batch, stream)

    def latency_path(self, *example: Any) -> LatencyPath:
        """Prepare to answer one request at a time with the least wait, for arrays of the host like these.

        Raises:
            LenetTrtError: the network does not take the arrays, or computes on the host.
        """
        from lenet_trt.runtimes.latency.path import open_path

        return open_path(*self._requests(example))

    def resident(self, *example: Any, silent_ms: int = 100, life_ms: int = 200, alone: bool = False) -> ResidentPath:
        """Prepare a kernel that stays on the GPU and answers requests like this one; the first request starts it.

        It ends by itself when no request came for ``silent_ms``, and after ``life_ms`` in any case; the next request
        starts it again. ``alone``: no other kernel runs on its multiprocessors.

        Raises:
            UsageError: a time is out of range.
            LenetTrtError: the network is not one kernel that has such a form, or the GPU is too old.
        """
        from lenet_trt.runtimes.latency.path import one_kernel
        from lenet_trt.runtimes.latency.resident import open_resident

        runtime, arrays = self._requests(example)
        call, arrays = one_kernel(runtime, arrays)
        return open_resident(self.inputs, call, arrays[0], silent_ms=silent_ms, life_ms=life_ms, alone=alone)

    def close(self) -> None:
        """Release the device's memory and write what is kept on disk; the network cannot be called afterwards."""
        if self._device is not None:
            self._device.forget()
        self.implementation.close()

    def _libraries(self, batch: Sequence[Any]) -> list[Library] | None:
        by_name = any(isinstance(given, dict) for given in batch)
        if by_name or len(batch) != len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise LenetTrtError(
                f"the network takes {len(self.inputs)} inputs ({names}), not {'a dict' if by_name else len(batch)}: "
                f"pass them in this order, as network({names})"
            )
        found = [library for library in map(library_of, batch) if library is not None]
        if found and len(found) < len(batch):
            raise LenetTrtError("some inputs are on the GPU and some on the host: copy them to one side first")
        return found or None

    def _requests(self, example: Sequence[Any]) -> tuple[DeviceRuntime, list[NDArray[Any]]]:
        """Return the runtime on the GPU and the arrays of the host, for a latency path."""
        if self._device is None:
            raise LenetTrtError(f"a latency path needs a runtime on the GPU, and this network is on {self.where}")
        if self._libraries(example) is not None:
            raise LenetTrtError("a latency path takes arrays of the host, and the inputs are on the GPU: use prepare()")
        return self._device.implementation, self._host_arrays(example)

    def _host_arrays(self, batch: Sequence[Any]) -> list[NDArray[Any]]:
        arrays = []
        for port, given in zip(self.inputs, batch, strict=True):
            array = np.asarray(given, order="C")  # ascontiguousarray would give a scalar an axis
            port.check(array.shape, array.dtype.name)
            arrays.append(array)
        return arrays

    def _on_host(self, batch: Sequence[Any]) -> list[NDArray[Any]]:
        arrays = self._host_arrays(batch)
        if self._device is None or not self._device.scales_images:
            arrays = [scaled_pixels(port, array) for port, array in zip(self.inputs, arrays, strict=True)]
        if self._device is not None:
            return self._device.from_host(arrays)
        assert self._host is not None
        return self._host.run(arrays)
