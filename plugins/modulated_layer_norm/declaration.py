"""Declare what the modulated layer norms share: behind the norm, each image has factors and shifts of the columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lenet_trt.dims import axes
from lenet_trt.kernel import INT32_MAX, Axis, BesidePlugins, IntegerAttribute, Kernel, Tensor, float_types

from ..layer_norm.declaration import EPSILON, LONG_ROWS, k, normalized
from ..windows.declaration import IN_FLOATS, rows_in_groups

n, t, factors, shifts, gates = axes("n t factors shifts gates")
factor_part, shift_part, gate_part = axes("factor_part shift_part gate_part")
ROWS = n * t
EIGHT = 8  # columns that lie side by side, as whole packs in each type
MOST_PARTS = 64  # of a tensor
X = Tensor("x", (n, t, k), "T", "tokens")
OF_IMAGE = (
    Tensor("factor", (n, factors, k), "T", "factors of columns, less 1; a part of each image", part="factor_part"),
    Tensor("shift", (n, shifts, k), "T", "summands of columns; a part of each image", part="shift_part"),
)
GATES = Axis("gates", "parts of the tensor of gates", static=True)
PART_OF_GATES = gate_part <= gates - 1
Y = Tensor("y", (n, t, k), "T", "normalised tokens")
TOKENS: tuple[Mapping[str, Any], ...] = (
    {"n": 1, "t": 1, "k": 8},
    {"n": 3, "t": 7, "k": 96},
    {"n": 2, "t": 197, "k": 384},
    {"n": 5, "t": 219, "k": 520},
    {"n": 5, "t": 61, "k": 1152, "epsilon": 1e-6},
    {"n": 2, "t": 9, "k": 1536},
    {"n": 3, "t": 5, "k": 4104},
    {"n": 2, "t": 2, "k": 40000},
)


def part_of(name: str) -> IntegerAttribute:
    """Declare which part of its tensor an input is."""
    return IntegerAttribute(f"{name}_part", 0, MOST_PARTS - 1, (0,), f"which part of its tensor {name} is")


def modulated(
    x: np.ndarray,
    factor: np.ndarray,
    shift: np.ndarray,
    scale: np.ndarray,
    bias: np.ndarray,
    *,
    epsilon: float,
    factor_part: int,
    shift_part: int,
) -> np.ndarray:
    """Compute the layer norm of x [n, t, k], times 1 + factor, plus shift, each a part of [n, parts, k]."""
    factors, shifts = factor[:, factor_part, np.newaxis], shift[:, shift_part, np.newaxis]
    return normalized(x, scale, bias, epsilon) * (1 + factors) + shifts


def norm_of_tokens(*, gated: bool = False, **declared: Any) -> Kernel:
    """Declare a norm of tokens; ``gated``: an image has a gate, too."""
    requires = (ROWS <= INT32_MAX) & k.multiple_of(EIGHT) & (factor_part <= factors - 1) & (shift_part <= shifts - 1)
    return Kernel(
        axes=(
            Axis("n", "images"),
            Axis("t", "tokens of an image"),
            Axis("factors", "parts of the tensor of factors", static=True),
            Axis("shifts", "parts of the tensor of shifts", static=True),
            *((GATES,) if gated else ()),
            Axis("k", "columns", static=True),
        ),
        types=float_types(),
        attributes=(EPSILON, part_of("factor"), part_of("shift"), *((part_of("gate"),) if gated else ())),
        max_elements=2**40,
        requires=requires & PART_OF_GATES if gated else requires,
        claims=(LONG_ROWS,),
        beside_plugins=BesidePlugins(both=True, sizes=IN_FLOATS),
        in_groups=rows_in_groups(ROWS, k),
        examples=tuple({**each, **_parts(6 if index % 2 else 1, gated)} for index, each in enumerate(TOKENS)),
        **declared,
    )


def _parts(count: int, gated: bool) -> dict[str, int]:
    """Return the axes and attributes of tensors with so many parts."""
    which = {"factor": 4, "shift": 3, **({"gate": 5} if gated else {})}
    axes = {f"{name}s": count for name in which}
    return {**axes, **{f"{name}_part": part % count for name, part in which.items()}}
