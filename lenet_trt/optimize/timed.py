"""Time networks against each other: in turns, in one run, on inputs that the L2 cache does not hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import NDArray

from lenet_trt.cuda.driver import Stream, ask, current_context, driver
from lenet_trt.cuda.statistics import Stats
from lenet_trt.cuda.timing import Timed, TimingPlan, time_in_turns, time_on_host_in_turns
from lenet_trt.runtimes.arrays import DeviceArray, own_array
from lenet_trt.runtimes.network import Network
from lenet_trt.runtimes.protocol import DeviceRuntime

# The most input sets; together with the outputs they fill twice the L2 cache where this number suffices.
_MOST_SETS = 12

HOW_ON_GPU = (
    "GPU time of one inference by CUDA events, the stream kept busy until everything is submitted; inputs rotate so "
    "that the L2 cache does not hold them"
)
HOW_ON_HOST = "time of one inference by the host's clock"


def in_turns(networks: Sequence[Network], arrays: Sequence[NDArray[Any]], plan: TimingPlan) -> list[Stats]:
    """Time one inference of each network on these inputs."""
    if networks[0].on_device is None:
        calls: dict[str, Callable[[], object]] = {
            str(index): partial(network.implementation.run, list(arrays))  # type: ignore[union-attr]
            for index, network in enumerate(networks)
        }
        found: Mapping[str, Stats] = time_on_host_in_turns(calls, plan)
    else:
        found = _on_gpu([runtime for n in networks if (runtime := n.on_device) is not None], arrays, plan)
    return [found[str(index)].without_samples() for index in range(len(networks))]


def _on_gpu(runtimes: Sequence[DeviceRuntime], arrays: Sequence[NDArray[Any]], plan: TimingPlan) -> Mapping[str, Stats]:
    from lenet_trt.cuda.hold import memory_hold

    stream = Stream()
    first = _inputs(arrays)
    outputs = sum(output.nbytes for output in runtimes[0].prepare(first).outputs)
    count = _sets(sum(array.nbytes for array in first) + outputs)
    sets = [first, *(_inputs(arrays) for _ in range(count - 1))]
    timed = {}
    for index, runtime in enumerate(runtimes):
        calls = [partial(runtime.prepare(inputs), stream.handle) for inputs in sets]
        timed[str(index)] = Timed(calls, hold=not runtime.waits)
    return time_in_turns(timed, stream.handle, memory_hold(stream.handle), plan)


def _inputs(arrays: Sequence[NDArray[Any]]) -> list[DeviceArray]:
    made = [own_array(array.shape, array.dtype.name) for array in arrays]
    for memory, array in zip(made, arrays, strict=True):
        memory.owner.write(array.reshape(-1))
    return made


def _sets(bytes_a_call: int) -> int:
    attribute = driver().CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
    l2 = int(ask(driver().cuDeviceGetAttribute(attribute, current_context().device), "cannot ask for the L2 cache"))
    return min(_MOST_SETS, math.ceil(2 * l2 / max(bytes_a_call, 1)) + 1)
