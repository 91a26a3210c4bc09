"""Compute ONNX's Resize by torch's ``interpolate``, where the two agree on which elements an output element is from.

Source: the ONNX operator specification (onnx.ai/onnx/operators), and the coordinates of ``torch.nn.Upsample``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional

from lenet_trt.errors import LenetTrtError
from lenet_trt.runtimes.graph.torch_node import Node, host_numbers, integers

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
# ONNX's coordinates of interpolation, and torch's align_corners.
_ALIGNED = {"half_pixel": False, "pytorch_half_pixel": False, "align_corners": True}


def resize(
    node: Node, x: Tensor, region: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    """Resize the axes behind the first two.

    Raises:
        LenetTrtError: torch has no such way of resizing.
    """
    axes = node.numbers("axes", None) or list(range(x.dim()))
    chosen = {axis % x.dim(): at for at, axis in enumerate(axes)}
    if sizes is not None:
        given = integers(sizes)
        wanted = [given[chosen[axis]] if axis in chosen else size for axis, size in enumerate(x.shape)]
        factors = [new / old for new, old in zip(wanted, x.shape, strict=True)]
        how: dict[str, Any] = {"size": wanted[2:]}
    elif scales is not None:
        values = host_numbers(scales)
        factors = [values[chosen[axis]] if axis in chosen else 1.0 for axis in range(x.dim())]
        how = {"scale_factor": factors[2:], "recompute_scale_factor": False}
    else:
        raise LenetTrtError("it has neither scales nor sizes")
    if node.get("antialias", 0) or node.get("exclude_outside", 0):
        raise LenetTrtError("antialias and exclude_outside are not supported")
    if node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise LenetTrtError("keep_aspect_ratio_policy is not supported")
    if factors[:2] != [1.0, 1.0]:
        raise LenetTrtError("it resizes one of the first two axes: only those behind them can be resized")
    if node.get("mode", "nearest") == "nearest":
        return functional.interpolate(x, mode=_nearest(node, factors[2:]), **how)
    return functional.interpolate(x, mode=_smooth(node, x.dim() - 2), align_corners=_aligned(node), **how)


def _nearest(node: Node, factors: Sequence[float]) -> str:
    """Return torch's mode that takes the same elements."""
    coordinates = node.get("coordinate_transformation_mode", "half_pixel")
    rounding = node.get("nearest_mode", "round_prefer_floor")
    if (coordinates, rounding) == ("asymmetric", "floor"):
        return "nearest"
    # Halves are rounded to one of two neighbours; where all factors are whole numbers there are none.
    whole = all(factor == int(factor) for factor in factors)
    if coordinates in ("half_pixel", "pytorch_half_pixel") and (
        rounding == "round_prefer_ceil" or (whole and rounding == "round_prefer_floor")
    ):
        return "nearest-exact"
    raise LenetTrtError(f"the nearest element by {coordinates} and {rounding} is not supported for these sizes")


def _smooth(node: Node, rank: int) -> str:
    mode = node.get("mode")
    if mode == "linear" and rank in _LINEAR:
        return _LINEAR[rank]
    if mode == "cubic" and rank == 2 and node.get("cubic_coeff_a", -0.75) == -0.75:
        return "bicubic"
    raise LenetTrtError(f"the mode {mode} is not supported for {rank} spatial axes and these coefficients")


def _aligned(node: Node) -> bool:
    coordinates = node.get("coordinate_transformation_mode", "half_pixel")
    if coordinates not in _ALIGNED:
        raise LenetTrtError(f"the coordinates {coordinates} are not supported for the mode {node.get('mode')}")
    return _ALIGNED[coordinates]
