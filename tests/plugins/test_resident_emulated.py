"""The kernel that stays on the GPU, run on the CPU: its own source, with a thread of the host for each of its own."""

from __future__ import annotations

import ctypes
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from lenet_trt.export.weights import load_weights
from lenet_trt.kernel.examples import relative_error
from lenet_trt.kernel.registry import kernel
from lenet_trt.runtimes.latency.ring import CONTROL_WORDS, SLOTS, STOP, Ring
from library_probes import missing_compiler

HERE = Path(__file__).parent / "emulated"
STRIDE = 16
FLOATS, WORDS = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_uint32)


# What only a GPU understands, as patterns and replacements. Variables in shared memory become references.
SHARED = (
    (r'#include "(common\.cuh|lenet5/cluster\.cuh)"\n', ""),  # cuda.h stands for both
    (
        r"__shared__ (?:alignas\(\d+\) )?([\w ]+?) (\w+)\[([^;]+)\];",
        r"using Shared_\2 = \1[\3]; auto& \2 = shared<Shared_\2>();",
    ),
    (r"__shared__ (\w+) (\w+), (\w+);", r"\1 &\2 = shared<\1>(), &\3 = shared<\1>();"),
    (r"__shared__ (\w+) (\w+);", r"\1& \2 = shared<\1>();"),
)
LINEAR = (
    (r"__device__ __forceinline__ __half early.*?\n}\n", ""),
    (r"template <>\nstruct Quad<__half> {.*?\n};\n", ""),
    (r'asm volatile\("ld\.global\.nc\.f32.*?;\n', "value = *address;\n"),
    (r'asm volatile\("ld\.global\.nc\.v4\..*?\(address\)\);', "bits = *(decltype(bits)*)address;"),
    (r"= __half22float2\(.*?\)\);", "{};"),
)
RING = ((r"__device__ __forceinline__ unsigned long long nanoseconds.*?(?=// Knows when)", ""),)  # cuda.h has these
SOURCES = {"resident.cu": (), "ring.cuh": RING, "convolutions.cuh": (), "lenet5.cuh": (), "linear.cuh": LINEAR}


def translated(name: str) -> str:
    """Return a source of the kernel as C++ for the CPU."""
    text = (kernel("lenet5").source_dir / name).read_text()
    for pattern, replacement in (*SHARED, *SOURCES[name]):
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    assert "asm" not in text, name
    return text


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if missing_compiler():
        pytest.skip(missing_compiler())
    folder = tmp_path_factory.mktemp("emulated")
    (folder / "translated" / "lenet5").mkdir(parents=True)
    for name in SOURCES:
        (folder / "translated" / "lenet5" / name).write_text(translated(name))
    # Without -fno-gnu-unique, the global variables would be those of any library before it that has the same names.
    command = ["g++", "-std=c++20", "-O2", "-w", "-shared", "-fPIC", "-pthread", "-fno-gnu-unique"]
    command += ["-DTYPE_TX=float", "-DTYPE_T=float"]
    includes = [f"-I{each}" for each in (HERE, folder, folder / "translated")]
    command += ["-DTYPE_TY=float", *includes, str(HERE / "resident.cpp"), "-o", str(folder / "resident.so")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(folder / "resident.so"))
    library.serve.argtypes = [FLOATS, ctypes.POINTER(FLOATS), WORDS, WORDS, *[ctypes.c_uint] * 4, FLOATS]
    library.serve.restype = None
    return library


class Emulated:
    """A ring that the emulated kernel serves. Its thread keeps this object, and so the memory that it uses."""

    def __init__(self, library: ctypes.CDLL, silent_ms: int = 600_000, life_ms: int = 600_000) -> None:
        self.declared = kernel("lenet5")
        shipped = load_weights()
        self.weights = [shipped[t.name.replace("_", ".")] for t in self.declared.inputs if t.weight]
        self.requests = np.zeros((SLOTS, 1, 1, 28, 28), np.float32)
        self.answers = np.zeros((SLOTS, STRIDE), np.float32)
        self.control, self.ended = np.zeros(CONTROL_WORDS, np.uint32), np.zeros(1, np.uint32)
        self.library, self.times = library, (1000 * silent_ms, 1000 * life_ms)
        self.thread: threading.Thread | None = None
        shown = [self.answers[slot, :10].reshape(1, 10) for slot in range(SLOTS)]
        self.ring = Ring(self.requests, shown, self.control, self.ended, self.start, self.done)

    def start(self, run: int, first: int) -> None:
        before = self.thread
        weights = (FLOATS * len(self.weights))(*(each.ctypes.data_as(FLOATS) for each in self.weights))
        requests, answers = (each.ctypes.data_as(FLOATS) for each in (self.requests, self.answers))
        control, ended = (each.ctypes.data_as(WORDS) for each in (self.control, self.ended))

        def serve() -> None:
            if before is not None:
                before.join()
            self.library.serve(requests, weights, control, ended, run, first, *self.times, answers)

        self.thread = threading.Thread(target=serve, daemon=True)
        self.thread.start()

    def done(self) -> bool:
        assert self.thread is not None
        return not self.thread.is_alive()

    def end(self) -> None:
        """End the kernel, whatever state the test left it in; the last thread waits for those before it."""
        self.control[STOP] = 1
        if self.thread is not None:
            self.thread.join(timeout=600)
            assert self.done()

    def exact(self, image: np.ndarray) -> np.ndarray:
        doubles = (each.astype(np.float64) for each in (image, *self.weights))
        return np.asarray(self.declared.reference(*doubles))


@pytest.fixture
def serve(emulated: ctypes.CDLL) -> Iterator[Callable[..., Emulated]]:
    """Return a function that makes a ring; its kernel ends with the test, also where an assertion fails."""
    made: list[Emulated] = []

    def make(**times_ms: int) -> Emulated:
        made.append(Emulated(emulated, **times_ms))
        return made[-1]

    yield make
    for each in made:
        each.end()


def images(count: int) -> np.ndarray:
    return np.random.default_rng(count).random((count, 1, 1, 28, 28), dtype=np.float32)


@pytest.mark.slow
def test_its_answers_are_those_of_the_network(serve: Callable[..., Emulated]) -> None:
    served = serve()
    for image in images(6):
        assert relative_error(served.ring.one(image), served.exact(image)) <= 5e-6
    assert served.ring.runs == 1
    served.ring.end()
    image = images(1)[0]
    assert relative_error(served.ring.one(image), served.exact(image)) <= 5e-6, "started again, at another slot"
    served.ring.end()


@pytest.mark.slow
def test_it_ends_when_the_host_is_silent(serve: Callable[..., Emulated]) -> None:
    served = serve(silent_ms=1500)
    image = images(1)[0]
    served.ring.one(image)
    assert served.thread is not None
    served.thread.join(timeout=600)
    assert not served.ring.stays
    assert relative_error(served.ring.one(image), served.exact(image)) <= 5e-6
    served.ring.end()
