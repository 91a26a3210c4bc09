"""Stage ``fuse``: ONNX in, ONNX out with plugin nodes where a kernel computes the same.

Each plugin node carries a model-local function made of what was taken out, so the file still runs in any ONNX
runtime. What was chosen, and what else could have been, is recorded in the file (``metadata_props``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lenet_trt.errors import LenetTrtError, UsageError
from lenet_trt.files import write_atomic
from lenet_trt.fusion.replacement import Refusal, Replacement

if TYPE_CHECKING:
    import onnx

    from lenet_trt.fusion.places import Place
    from lenet_trt.kernel import Kernel

__all__ = ["Fused", "Refusal", "Replacement", "add_arguments", "chosen_kernels", "command", "fuse", "plugin_nodes"]


@dataclass(frozen=True)
class Fused:
    """The model with its plugin nodes; without any, it is the model that was given."""

    model: onnx.ModelProto
    replacements: tuple[Replacement, ...]
    refusals: tuple[Refusal, ...]


def fuse(model: onnx.ModelProto, plugins: str | Sequence[str | Kernel] = "auto") -> Fused:
    """Put plugin nodes where kernels compute the same as the model's own nodes.

    ``plugins``: "auto" (every kernel that fits, those that replace most nodes first), "none", or kernels (names or
    declarations): then only those are used, each must find a place, and of two that replace equally many nodes the
    one named first is taken, unless a pattern says what it prefers.

    Raises:
        UsageError: a name that is no kernel's.
        LenetTrtError: a kernel that was asked for by name fits nowhere; says what is in the way.
    """
    kernels = chosen_kernels(plugins)
    if not kernels:
        return Fused(model, (), ())
    from lenet_trt.fusion.assemble import assembled
    from lenet_trt.fusion.places import chosen, find_places

    places, refused = find_places(model, kernels)
    taken = chosen(places)
    refusals = tuple(Refusal(match.kernel.name, names, why) for match, names, why in refused)
    if plugins != "auto":
        _demand(model, kernels, places, taken, refusals)
    if not taken:
        return Fused(model, (), refusals)
    result, replacements, left = assembled(model, taken, places)
    return Fused(result, tuple(replacements), (*refusals, *left))


def chosen_kernels(plugins: str | Sequence[str | Kernel]) -> list[Kernel]:
    """The kernels that a ``--plugins`` value stands for, in order of preference."""
    from lenet_trt import registry

    if plugins == "none":
        return []
    if plugins == "auto":
        return list(registry.kernels().values())
    chosen: dict[str, Kernel] = {}
    for entry in [plugins] if isinstance(plugins, str) else plugins:
        if not isinstance(entry, str):
            chosen[entry.name] = entry
            continue
        for name in filter(None, (part.strip() for part in entry.split(","))):
            try:
                chosen[name] = registry.kernel(name)
            except LenetTrtError as error:
                if name in registry.kernels():
                    raise  # it is there, and cannot be loaded
                raise UsageError(f"--plugins: {error}") from error
    if not chosen:
        raise UsageError("--plugins names no kernel: give auto, none, or names joined by commas")
    return list(chosen.values())


def plugin_nodes(model: onnx.ModelProto) -> dict[str, str]:
    """Node name -> kernel name of the plugin nodes in a model."""
    from lenet_trt.pattern import DOMAIN

    return {node.name or node.output[0]: node.op_type for node in model.graph.node if node.domain == DOMAIN}


def _demand(
    model: onnx.ModelProto,
    kernels: Sequence[Kernel],
    places: Sequence[Place],
    taken: Sequence[Place],
    refusals: Sequence[Refusal],
) -> None:
    """Fail when a kernel that was asked for by name has no place, now or from an earlier run."""
    present = {*(place.kernel.name for place in taken), *plugin_nodes(model).values()}
    for kernel in kernels:
        if kernel.name in present:
            continue
        reasons = [
            f"at {', '.join(refusal.replaced)}: {refusal.reason}"
            for refusal in refusals
            if refusal.kernel == kernel.name
        ]
        rivals = sorted(
            {
                winner.kernel.name
                for winner in taken
                for place in places
                if place.kernel is kernel and place.match.origins & winner.match.origins
            }
        )
        if rivals:
            reasons.append(f"{' and '.join(rivals)}, asked for as well, takes its nodes: leave one out")
        why = "; ".join(reasons) or "the network has no such layers"
        raise LenetTrtError(
            f"--plugins {kernel.name}: there is no place for it in this network: {why}. It replaces: {kernel.doc}"
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line of the stage."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="the ONNX file")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT", help="where to write (default: MODEL.fused.onnx)")
    parser.add_argument(
        "--plugins",
        default="auto",
        metavar="auto|none|NAME,...",
        help="kernels to use: all that fit, none, or these (lenet-trt plugins lists them)",
    )
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def command(arguments: argparse.Namespace) -> int:
    """Fuse one file; print what was replaced and the path written."""
    from lenet_trt.model import load_model

    source: Path = arguments.model
    output = arguments.output or source.with_name(f"{source.stem}.fused.onnx")
    model = load_model(source)
    fused = fuse(model, arguments.plugins)
    data = fused.model.SerializeToString() if fused.replacements else source.read_bytes()
    write_atomic(output, data)
    if arguments.json:
        answer = {
            "output": str(output),
            "replacements": [asdict(entry) for entry in fused.replacements],
            "refusals": [asdict(entry) for entry in fused.refusals],
        }
        print(json.dumps(answer, indent=2))
        return 0
    for entry in fused.refusals:
        print(f"left as it is: {', '.join(entry.replaced)}: {entry.reason}", file=sys.stderr)
    for done in fused.replacements:
        print(f"{done.node} ({done.types}) replaces {', '.join(done.replaced)}")
    if not fused.replacements:
        print(f"no plugin node was added ({len(plugin_nodes(model))} were there before)")
    print(output)
    return 0


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["fuse", *sys.argv[1:]]))
