"""Say in few words when ``auto`` would take a kernel that it leaves out for its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lenet_trt.kernel.bind import Specialized
from lenet_trt.kernel.dims import ARCHITECTURE, Condition

_LONG_CONDITION = 60


def when_taken(specialized: Specialized, known: Sequence[Mapping[str, int]]) -> str:
    """Return what is missing most nearly: the GPU, plugins around it, or the part of a condition that fails.

    ``known``: the sizes that are known, for each GPU (``sizes_of_claims``).
    """
    kernel, beside = specialized.kernel, specialized.kernel.beside_plugins
    ways = [(claim, "") for claim in kernel.claims]
    ways += [(beside.sizes, " beside plugins")] if beside is not None and beside.sizes is not None else []
    ways += [(kernel.in_groups, " in a group of plugins")] if kernel.in_groups is not None else []
    missing = [(_failing(condition, known), where) for condition, where in ways]
    possible = [(failing, where) for failing, where in missing if not any(map(_is_of_types, failing))]
    if not possible:
        return f"auto does not take {kernel.name} in {specialized.types.name}"
    failing, where = min(possible, key=lambda way: (len(way[0]), len(" & ".join(map(str, way[0])))))
    gpus = [f" on sm_{each.right}" for each in failing if _is_of_gpu(each)]
    sizes = [each for each in failing if not _is_of_gpu(each)]
    return f"auto takes {kernel.name} only{''.join(gpus)}{where}{_sizes(sizes, known[0])}"


def _failing(condition: Condition, known: Sequence[Mapping[str, int]]) -> list[Condition]:
    """Return the comparisons that fail, or are not known, on one of the GPUs."""
    return [
        each
        for each in dict.fromkeys(condition.comparisons)
        if not all(each.axes <= sizes.keys() and each.evaluate(sizes) for sizes in known)
    ]


def _is_of_types(comparison: Condition) -> bool:
    """Say whether the types alone decide: no size and no GPU makes it hold."""
    return all(name.startswith("sizeof_") for name in comparison.axes)


def _is_of_gpu(comparison: Condition) -> bool:
    return comparison.axes == ARCHITECTURE.axes and comparison.relation == "=="


def _sizes(failing: Sequence[Condition], known: Mapping[str, int]) -> str:
    if not failing:
        return ""
    text = " & ".join(map(str, failing))
    if len(text) > _LONG_CONDITION:
        return " at other sizes"
    names = sorted(frozenset().union(*(each.axes for each in failing)))
    seen = ", ".join(f"{name} = {known[name]}" if name in known else f"{name} is not known" for name in names)
    return f" where {text} ({seen})"
