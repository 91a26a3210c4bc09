"""Read the options of ``plugins``: list the kernels, what each replaces, its types, targets and measured gain."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lenet_trt.bench.gains import gains
from lenet_trt.bench.record import load_record
from lenet_trt.bench.resource_table import ResourceRow, resource_table
from lenet_trt.cuda.gpus import sm_number, sm_text
from lenet_trt.cuda.resources import MULTIPROCESSORS_OF, resources_of
from lenet_trt.errors import UsageError
from lenet_trt.kernel import Attribute, Kernel, Variant
from lenet_trt.kernel.bind import Bound
from lenet_trt.kernel.examples import ExampleCase, cases
from lenet_trt.kernel.registry import kernel as kernel_named
from lenet_trt.kernel.registry import kernels, plugins_dir
from lenet_trt.schema import json_text

# Records of `lenet-trt bench kernels`, a folder a GPU: in the repository, and where the package is installed. One that
# has other workloads than the suite's own set is called kernels_NAME.json.
RESULTS = "docs/results"
INSTALLED = "records"
RECORDS = "kernels*.json"
_LONG_CONDITION = 60
# GeForce and Jetson, of which none was here; Orin is 8.7.
SMS = (75, 86, 87, 89, 120)


def records_folder() -> Path | None:
    """Return the folder of the records; None where they were taken away."""
    places = (plugins_dir().parent / RESULTS, plugins_dir().parent / INSTALLED)
    return next((folder for folder in places if folder.is_dir()), None)


def describe(kernel: Kernel) -> dict[str, Any]:
    """Return everything that a listing says of a kernel; ``measured`` is None where no records are installed."""
    records = records_folder()
    return {
        "name": kernel.name,
        "version": kernel.version,
        "replaces": kernel.doc,
        "types": {types.name: dict(types.variables) for types in kernel.types},
        "tolerances": {types.name: types.tolerance for types in kernel.types},
        "attributes": {a.name: list(a.choices) if isinstance(a, Attribute) else a.allowed for a in kernel.attributes},
        "requires": None if kernel.requires is None else str(kernel.requires),
        "claims": [str(condition) for condition in kernel.claims],
        "variants": [
            {
                "name": variant.name,
                "min_sm": variant.min_sm,
                "only_sm": variant.only_sm,
                "types": list(variant.types or [types.name for types in kernel.types]),
                "when": None if variant.when is None else str(variant.when),
                "prefer": None if variant.prefer is None else str(variant.prefer),
                "launches": len(variant.parts),
                "workspace": str(variant.workspace) if variant.workspace != 0 else None,
                "note": variant.note,
            }
            for variant in kernel.variants
        ],
        "by_name": kernel.by_name,
        "folder": str(kernel.source_dir),
        "measured": None if records is None else measurements(kernel.name, records),
    }


def measurements(name: str, folder: Path) -> list[dict[str, Any]]:
    """Return measurements of a kernel: its time, the best peer and its time, and the GPU, for each workload.

    Records are those of `lenet-trt bench kernels` in the folder's folders; without any there are none.

    Raises:
        LenetTrtError: a record is damaged.
    """
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob(f"*/{RECORDS}")):
        found = gains(load_record(path))
        rows += [{**row, "record": f"{path.parent.name}/{path.name}"} for row in found if row["kernel"] == name]
    return rows


def resource_rows(kernel: Kernel, capabilities: Sequence[str]) -> Iterator[ResourceRow]:
    """Yield the resources of each launch of a variant in each type, at the largest of its declared examples.

    Raises:
        LenetTrtError: there is no such architecture, or a variant does not compile for it.
    """
    sms = [_known_sm(text) for text in capabilities] or list(SMS)
    largest: dict[tuple[str, str], ExampleCase] = {}
    for case in cases(kernel):
        known = largest.setdefault((case.variant.name, case.bound.types.name), case)
        if case.bound.flops > known.bound.flops:
            largest[case.variant.name, case.bound.types.name] = case
    builds = [
        (case.bound, part, sm)
        for case in largest.values()
        for part in case.variant.parts
        for sm in sms
        if case.variant.supports(sm, case.bound.types)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the compiler works in several threads at once
        yield from pool.map(lambda build: _resource_row(*build), builds)


def _resource_row(bound: Bound, part: Variant, sm: int) -> ResourceRow:
    found = resources_of(bound, part, sm)
    blocks, limit = found.blocks(sm)
    return ResourceRow(
        *(bound.kernel.name, part.name, bound.types.name, sm),
        *(found.registers, found.shared_bytes, found.local_bytes, blocks),
        *(found.occupancy(sm), limit),
    )


def _known_sm(text: str) -> int:
    sm = sm_number(text)
    if sm not in MULTIPROCESSORS_OF:
        known = " ".join(map(sm_text, MULTIPROCESSORS_OF))
        raise UsageError(f"--resources {text}: wanted compute capabilities such as 8.6; known are {known}")
    return sm


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="these kernels alone, and when each variant runs")
    parser.add_argument("--measured", action="store_true", help="list every time that was measured")
    parser.add_argument(
        "--resources",
        nargs="*",
        metavar="SM",
        help="list registers of a thread / shared memory of a block in KiB / occupancy of each variant on these "
        "architectures, by calculation; -: it cannot run there (default: " + " ".join(map(sm_text, SMS)) + ")",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def command(arguments: argparse.Namespace) -> int:
    """List the kernels."""
    known = [kernel_named(name) for name in arguments.names] or list(kernels().values())
    if arguments.resources is not None:
        table = [row for kernel in known for row in resource_rows(kernel, arguments.resources)]
        lines = ",\n".join(json.dumps(asdict(row)) for row in table)
        print(f"[\n{lines}\n]" if arguments.json else resource_table(table))
        return 0
    listed = [describe(kernel) for kernel in known]
    if arguments.json:
        print(json_text(listed))
        return 0
    print("\n\n".join(_text(entry, bool(arguments.names), arguments.measured) for entry in listed))
    if not arguments.names:
        print("\n`lenet-trt plugins NAME` says when each variant runs.")
    return 0


def _text(entry: Mapping[str, Any], variants: bool, measured: bool) -> str:
    oldest = min(variant["min_sm"] for variant in entry["variants"])
    lines = [
        f"{entry['name']} (version {entry['version']})",
        f"  replaces  {entry['replaces']}",
        f"  runs in   {', '.join(entry['types'])}, on sm_{oldest} and newer",
    ]
    if entry["by_name"]:
        lines.append(f"  chosen    only by name, --plugins {entry['name']}: no engine with it was measured")
    if variants:
        lines += [f"  requires  {entry['requires']}"] if entry["requires"] else []
        lines += [f"  claims    {condition}" for condition in entry["claims"]]
        lines += [f"  variant   {_variant_text(variant)}" for variant in entry["variants"]]
    else:
        lines.append(f"  variants  {', '.join(variant['name'] for variant in entry['variants'])}")
    if not entry["measured"]:
        lines.append(
            f"  measured  {'not by bench kernels' if entry['measured'] == [] else 'the records are not installed'}"
        )
    elif measured:
        lines += [f"  measured  {_measured_text(row)}" for row in entry["measured"]]
    else:
        lines += [f"  measured  {text}" for text in _summaries(entry["measured"])]
    return "\n".join(lines)


def _summaries(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the smallest and the largest gain on each GPU."""
    for gpu in dict.fromkeys(row["gpu"] for row in rows):
        found = [row["peer_us"] / row["us"] for row in rows if row["gpu"] == gpu]
        told = f"{min(found):.2f}x to {max(found):.2f}x as fast as the best peer"
        yield f"{told}, {len(found)} workloads on {gpu} (--measured)"


def _variant_text(variant: Mapping[str, Any]) -> str:
    limits = [f"sm_{variant['min_sm']} {'alone' if variant['only_sm'] else 'and newer'}", ", ".join(variant["types"])]
    for key, word in (("when", "where"), ("prefer", "preferred where")):
        if variant[key]:
            short = len(variant[key]) <= _LONG_CONDITION
            limits.append(f"{word} {variant[key] if short else 'sizes are as --json says'}")
    if variant["launches"] > 1:
        limits.append(f"{variant['launches']} launches")
    if variant["workspace"]:
        limits.append(f"workspace {variant['workspace']} bytes")
    return f"{variant['name']}: {variant['note']} ({'; '.join(limits)})"


def _measured_text(row: Mapping[str, Any]) -> str:
    gain = row["peer_us"] / row["us"]
    return (
        f"{row['workload']}: {row['us']:.1f} us, {gain:.2f}x {row['peer']} ({row['peer_us']:.1f} us), "
        f"{row['gpu']}, {row['record']}"
    )


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["plugins", *sys.argv[1:]]))
