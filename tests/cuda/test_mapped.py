"""Memory that a GPU sees too: an array of it keeps it, whoever holds the array."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np

from lenet_trt.cuda.mapped import owned_array


class Owner:
    """Stands for the driver's allocation."""

    def __init__(self, size: int) -> None:
        self.memory = ctypes.create_string_buffer(b"\1" * size, size)
        self.address = ctypes.addressof(self.memory)


def test_views_keep_the_memory() -> None:
    owner = Owner(24)
    freed = weakref.ref(owner)
    array = owned_array(owner, owner.address, (2, 3), np.dtype(np.float32))
    assert (array == 0).all(), "the memory is cleared"
    array[1, 2] = 7
    assert np.frombuffer(owner.memory, np.float32)[5] == 7
    copy, words = array[1].copy, memoryview(array.reshape(-1).view("u1").data)
    del owner, array
    gc.collect()
    assert freed() is not None
    assert copy()[2] == 7
    del copy
    gc.collect()
    assert freed() is not None
    assert np.frombuffer(words.tobytes(), np.float32)[5] == 7
    del words
    gc.collect()
    assert freed() is None


def test_an_empty_array_has_memory_too() -> None:
    owner = Owner(1)
    assert owned_array(owner, owner.address, (0, 10), np.dtype(np.float32)).shape == (0, 10)
