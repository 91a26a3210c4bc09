"""Launching: cheap, from any thread, under capture, and refused before it can do harm."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.check.gpu_checks import Rig
from lenet_trt.cuda import launch
from lenet_trt.cuda.driver import current_context
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.examples import ExampleCase, cases

EXERCISE = registry.load_kernel(Path(__file__).parents[1] / "kernels" / "matmul_act_rowsum")


def case(rows: int = 5) -> ExampleCase:
    found = cases(EXERCISE, current_context().sm)
    return next(c for c in found if c.bound.axes["n"] == rows and c.bound.types.name == "fp32")


def test_the_first_launch_may_be_in_a_capture() -> None:
    rig = Rig(case())
    launch._load.cache_clear()
    with rig.stream.capture() as graph:
        launch.prepare(rig.case.bound, rig.case.variant)(rig.pointers, rig.stream.handle)
    graph.replay(rig.stream)
    rig.stream.synchronize()
    assert rig.problem() is None


def test_a_context_that_is_begun_early_is_the_one_that_is_used() -> None:
    program = (
        "from lenet_trt.cuda.driver import *; import numpy as np; threads = [begin_context(), begin_context(99)];"
        "buffer = Buffer(8); buffer.write(np.arange(8, dtype=np.uint8)); [thread.join() for thread in threads];"
        "handle = ask(driver().cuCtxGetCurrent(), ''); primary = ask(driver().cuDevicePrimaryCtxRetain(0), '');"
        "print(buffer.read().tolist(), int(handle) == int(primary))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[0, 1, 2, 3, 4, 5, 6, 7] True\n", done.stderr


def test_one_launcher_serves_several_threads() -> None:
    rig = Rig(case())
    rigs = [Rig(case()) for _ in range(8)]
    failures: list[BaseException] = []

    def work(own: Rig) -> None:
        try:
            current_context()
            for _ in range(500):
                rig.launcher(own.pointers, own.stream.handle)
            own.stream.synchronize()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(own,)) for own in rigs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [own.problem() for own in rigs] == [None] * len(rigs)


def test_wrong_pointers_are_refused() -> None:
    rig = Rig(case())
    with pytest.raises(LenetTrtError, match="takes 4 pointers, not 3"):
        rig.launcher(rig.pointers[:3], rig.stream.handle)
    with pytest.raises(LenetTrtError, match=r"wt is at address 0x0; matmul_act_rowsum wants a multiple of 16 bytes"):
        rig.launcher([rig.pointers[0], 0, *rig.pointers[2:]], rig.stream.handle)


def test_more_shared_memory_than_the_gpu_has_is_refused() -> None:
    bound = EXERCISE.bind([(5, 300), (500, 300)], ["float32", "float32"])
    with pytest.raises(LenetTrtError, match="matmul_act_rowsum_shared wants 600000 bytes of shared memory"):
        launch.prepare(bound, EXERCISE.variant("shared"))
    assert bound.variant(current_context().sm).name == "plain"


def test_what_the_driver_refuses_is_said_with_kernel_and_shapes() -> None:
    rig = Rig(case())
    variant = EXERCISE.variant("plain")
    larger = replace(variant, launch=replace(variant.launch, block=(1024, 1, 1)))  # than its __launch_bounds__
    with pytest.raises(LenetTrtError, match=r"cannot launch matmul_act_rowsum plain on \[\(5, 3\), .*CUDA_ERROR"):
        launch.prepare(rig.case.bound, larger)(rig.pointers, rig.stream.handle)


def test_a_launch_costs_a_few_microseconds_of_host_time() -> None:
    rig = Rig(case(1))
    pointers, stream = rig.pointers, rig.stream.handle
    samples = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(100):
            rig.launcher(pointers, stream)
        samples.append((time.perf_counter() - start) * 1e6 / 100)
        rig.stream.synchronize()
    median = float(np.median(samples))
    print(f"host time of a launch: {median:.2f} us")
    assert median < 20  # an order of magnitude above what was measured on an idle machine
