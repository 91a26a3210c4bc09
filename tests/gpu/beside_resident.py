"""A program: do something beside a kernel that stays on the GPU. Prints what happened as JSON; argument: what to do."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import numpy as np
import onnx

from lenet_trt.cuda.driver import Buffer, Stream, ask, current_context, driver
from lenet_trt.cuda.launch import prepare
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel.registry import kernel
from lenet_trt.runtimes.graph.runtime import GraphRuntime
from lenet_trt.runtimes.network import Network

LIFE_MS = 1500
IMAGES = np.random.default_rng(3).random((64, 1, 1, 28, 28), dtype=np.float32)


def load_a_kernel() -> None:
    """Load a module, and launch its kernel for the first time, in another stream."""
    declared = kernel("maxpool2")
    bound = declared.bind_axes(declared.examples[0], declared.types[0])
    launch = prepare(bound)
    sizes = [4 * int(np.prod(shape)) for shape in (*bound.input_shapes, *bound.output_shapes)]
    buffers = [Buffer(size) for size in sizes]
    stream = Stream()
    launch([buffer.pointer for buffer in buffers], stream.handle)
    stream.synchronize()


def allocate() -> None:
    """Allocate memory on the GPU."""
    global kept
    kept = Buffer(64 << 20)


def free() -> None:
    """Free memory on the GPU."""
    ask(driver().cuMemFree(spare), "cannot free")


def load_by_torch() -> None:
    """Let torch load kernels that it has not used."""
    import torch

    x = torch.rand(100, 100, device="cuda")
    float((torch.special.bessel_j0(x) @ x).sum())


def synchronize() -> None:
    """Wait for all work of the context."""
    ask(driver().cuCtxSynchronize(), "cannot synchronize")


ACTS = {act.__name__: act for act in (load_a_kernel, allocate, free, load_by_torch, synchronize)}


def main(what: str) -> None:
    """Answer requests, and do it between them, or in another thread while they go on."""
    global spare
    network = Network(GraphRuntime(fuse(onnx.load(SHIPPED), ["lenet5"]).model), "a test")
    right = [network(image) for image in IMAGES]
    spare = int(ask(driver().cuMemAlloc(64 << 20), "cannot allocate"))
    if what == "killed":
        path = network.resident(IMAGES[0], silent_ms=2000, life_ms=60_000)
        path(IMAGES[0])
        print(json.dumps({"pid": os.getpid()}), flush=True)
        while True:
            path(IMAGES[0])
    path = network.resident(IMAGES[0], silent_ms=1000, life_ms=LIFE_MS)
    path(IMAGES[0])
    found: dict[str, object] = {"what": what}
    acted = threading.Event()

    def act() -> None:
        current_context()
        begin = time.perf_counter()
        try:
            ACTS[what]()
            found["ms"] = round(1e3 * (time.perf_counter() - begin), 3)
        finally:
            acted.set()

    thread = threading.Thread(target=act)
    thread.start()
    wrong = requests = 0
    slowest = 0.0
    while requests < 2000 or not acted.is_set():
        at = requests % len(IMAGES)
        begin = time.perf_counter()
        answer = path(IMAGES[at])
        slowest = max(slowest, time.perf_counter() - begin)
        wrong += int(not np.allclose(answer, right[at], rtol=1e-5, atol=1e-5))
        requests += 1
        if requests % 100 == 0:
            time.sleep(0)  # the other thread wants Python's lock now and then
    thread.join()
    found |= {"requests": requests, "wrong": wrong, "runs": path.ring.runs, "slowest_ms": round(1e3 * slowest, 3)}
    path.close()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
