"""Ports of networks: the batch that they are used with."""

from __future__ import annotations

import pytest

from lenet_trt.onnx_model.ports import Port


@pytest.mark.parametrize(
    ("first", "largest", "chosen", "batch"),
    [(4, None, None, 4), ("n", None, None, 256), ("n", 32, None, 32), ("n", 1024, None, 256), ("n", 32, 8, 8)],
)
def test_the_usual_batch_is_one_that_the_network_takes(
    first: int | str, largest: int | None, chosen: int | None, batch: int
) -> None:
    assert Port("x", "float32", (first, 3), largest).batch(chosen, 256) == batch
