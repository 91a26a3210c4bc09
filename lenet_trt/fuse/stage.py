"""Fuse a model: ONNX in, ONNX out, with plugin nodes where a kernel computes the same.

Each plugin node carries a model-local function made of the nodes that it replaced, so the file still runs in any ONNX
runtime. The file records what was chosen, and what else could have been chosen (``metadata_props``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.onnx_model.plugin_nodes import Refusal, Replacement, plugin_nodes

if TYPE_CHECKING:
    import onnx

    from lenet_trt.fuse.places import Place
    from lenet_trt.kernel.declaration import Kernel

__all__ = ["Fused", "architectures_here", "chosen_kernels", "fuse"]


@dataclass(frozen=True)
class Fused:
    """Hold the model with its plugin nodes; without any plugin node, it is the given model."""

    model: onnx.ModelProto
    replacements: tuple[Replacement, ...]
    refusals: tuple[Refusal, ...]


_SETS = ("auto", "all", "none")
# What values of --plugins mean, for the help of every verb that has the option.
CHOICES_HELP = (
    "auto (those that fit, at sizes for which they claim to be as fast as libraries), all (at every size, and those "
    "that auto leaves out), none, or these (lenet-trt plugins lists them)"
)


def fuse(
    model: onnx.ModelProto,
    plugins: str | Sequence[str | Kernel] = "auto",
    architectures: Sequence[int] | None = None,
    usual: Mapping[str, int] | None = None,
) -> Fused:
    """Put plugin nodes where kernels compute the same as the model's own nodes.

    ``plugins``: "auto" (every kernel that fits, for sizes that it claims, those that replace most nodes first), "all"
    (for all sizes, and also those that are used ``by_name``), "none", or kernels (names or declarations): then only
    those are used, each must find a place, and of two that replace equally many nodes the one named first is taken,
    unless a pattern says what it prefers.

    ``architectures``: of the GPUs that the model is for (90 for sm_90), since some claims hold where they were measured
    alone. None: of the GPU here; where there is none, such claims do not count.

    ``usual``: sizes of open axes at which "auto" judges what kernels claim, such as those for which TensorRT chooses
    its own; the axes stay open. Without them most kernels claim nothing there.

    Raises:
        UsageError: a name that is no kernel's, or sizes that the model is not for.
        LenetTrtError: a kernel that was asked for by name fits nowhere; says what is in the way.
    """
    kernels = chosen_kernels(plugins)
    if not kernels:
        return Fused(model, (), ())
    from lenet_trt.onnx_model.attention import written_out

    claims_on = None
    if plugins == "auto":
        claims_on = architectures_here() if architectures is None else architectures
    # TensorRT has kernels for attention in halves too: it is written out only where plugins take all of it.
    narrow = written_out(model)
    all_written = written_out(narrow, halves=True)
    of_halves = _products(all_written) - _products(narrow)
    found = _found(all_written, model, kernels, claims_on, usual) if of_halves else None
    if found is None or not of_halves.isdisjoint(_products(found[0].model)):
        found = _found(narrow, model, kernels, claims_on, usual)
    if plugins not in ("auto", "all"):
        _demand(kernels, *found)
    return found[0]


def _products(model: onnx.ModelProto) -> frozenset[str]:
    return frozenset(node.output[0] for node in model.graph.node if node.op_type in ("MatMul", "Softmax"))


def _found(
    model: onnx.ModelProto,
    given: onnx.ModelProto,
    kernels: Sequence[Kernel],
    claims_on: Sequence[int] | None,
    usual: Mapping[str, int] | None,
) -> tuple[Fused, Sequence[Place], Sequence[Place]]:
    """Return the fused model, which is ``given`` where nothing is replaced; all places; and those that are taken."""
    from lenet_trt.fuse.assemble import assembled
    from lenet_trt.fuse.casts import without_needless_casts
    from lenet_trt.fuse.ordered_places import places_in_order
    from lenet_trt.fuse.place_choice import chosen, nodes_of
    from lenet_trt.fuse.places import find_places
    from lenet_trt.fuse.recurrent import with_all_outputs
    from lenet_trt.onnx_model.fixed_axes import with_sizes

    model = without_needless_casts(with_all_outputs(model))
    if claims_on is not None and usual:
        model, places, _ = places_in_order(model, kernels, claims_on, usual)
        judged, refused = find_places(with_sizes(model, usual), kernels, claims_on)
        claimed = chosen(judged)
        there = {place.key for place in claimed}
        taken = [place for place in places if place.key in there]
    else:
        model, places, refused = places_in_order(model, kernels, claims_on)
        judged = places
        claimed = taken = chosen(places)
    replaced = nodes_of(claimed)
    refused += [
        Refusal(place.kernel.name, place.titles, f"{missing}: --plugins {place.kernel.name} takes it there", missing)
        for place in judged
        if place not in claimed and (missing := place.missing(replaced))
    ]
    result, replacements, left = assembled(model, taken, places)
    fused = Fused(result if replacements else given, tuple(replacements), (*refused, *left))
    return fused, places, taken


def architectures_here() -> Sequence[int]:
    """Return the architecture of the GPU here (90 for sm_90); none where there is no GPU."""
    from lenet_trt.cuda.gpus import first_gpu

    gpu = first_gpu()
    return () if gpu is None else (gpu.sm,)


def chosen_kernels(plugins: str | Sequence[str | Kernel]) -> list[Kernel]:
    """Return the kernels for which a ``--plugins`` value stands, in order of preference."""
    from lenet_trt.kernel import registry

    if plugins == "none":
        return []
    if plugins == "all":
        return list(registry.kernels().values())
    if plugins == "auto":
        return [kernel for kernel in registry.kernels().values() if not kernel.by_name]
    chosen: dict[str, Kernel] = {}
    for entry in [plugins] if isinstance(plugins, str) else plugins:
        if not isinstance(entry, str):
            chosen[entry.name] = entry
            continue
        for name in filter(None, (part.strip() for part in entry.split(","))):
            if name in _SETS:
                raise UsageError(
                    f"--plugins {entry}: {name} cannot be combined with names: give it alone, or names joined by commas"
                )
            chosen[name] = registry.kernel(name)
    if not chosen:
        raise UsageError("--plugins names no kernel: give auto, all, none, or names joined by commas")
    return list(chosen.values())


def _demand(kernels: Sequence[Kernel], fused: Fused, places: Sequence[Place], taken: Sequence[Place]) -> None:
    """Fail when a kernel that was asked for by name has no place, now or from an earlier run."""
    present = set(plugin_nodes(fused.model).values())
    for kernel in kernels:
        if kernel.name in present:
            continue
        reasons = [
            f"at {', '.join(refusal.replaced)}: {refusal.reason}"
            for refusal in fused.refusals
            if refusal.kernel == kernel.name
        ]
        rivals = sorted(
            {
                winner.kernel.name
                for winner in taken
                if winner.kernel is not kernel
                for place in places
                if place.kernel is kernel and place.match.origins & winner.match.origins
            }
        )
        if rivals:
            reasons.append(f"{' and '.join(rivals)}, asked for as well, takes its nodes: leave one out")
        why = "; ".join(reasons) or "the network has no such layers"
        raise LenetTrtError(
            f"--plugins {kernel.name}: the network has no place for it: {why}. It replaces: {kernel.doc}"
        )
