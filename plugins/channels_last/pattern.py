"""Define the nodes of 3x3 convolutions with a padding of one pixel, and what can precede and follow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lenet_trt.pattern import Pattern

from ..windows.activation import NODES_IN_HALVES
from ..windows.convolutions import patterns_in_halves, patterns_of_sums_in_halves
from .declaration import PAD, SIZE

Nodes = Callable[[Any, Any], Any]
SIZES = {"kernel_shape": [SIZE, SIZE], "pads": [PAD] * 4}


def _joined(nodes: Nodes) -> Callable[..., Any]:
    def graph(op: Any, x: Any, other: Any, w: Any, bias: Any) -> Any:
        return nodes(op, op.Conv(op.Concat(x, other, axis=1), w, bias, **SIZES))

    return graph


def _shuffled(nodes: Nodes) -> Callable[..., Any]:
    def graph(op: Any, x: Any, w: Any, bias: Any) -> Any:
        return op.DepthToSpace(nodes(op, op.Conv(x, w, bias, **SIZES)), blocksize=2, mode="CRD")

    return graph


PLAIN, ADDED = patterns_in_halves(**SIZES), patterns_of_sums_in_halves(**SIZES)
JOINED = tuple(Pattern(_joined(nodes), {"activation": name}) for name, nodes in NODES_IN_HALVES)
SHUFFLED = tuple(Pattern(_shuffled(nodes), {"activation": name}) for name, nodes in NODES_IN_HALVES)
