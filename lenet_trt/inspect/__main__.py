"""Read the options of ``inspect``: describe an engine or an ONNX file, and compare an engine with its sidecar."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from onnx import ModelProto, TensorProto

from lenet_trt.errors import UsageError
from lenet_trt.files import report_stream, sha256_file, write_atomic
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.onnx_model.plugin_nodes import holds_kernel, recorded
from lenet_trt.onnx_model.precision import kinds_of
from lenet_trt.onnx_model.read import described_tensors, load_model, model_files
from lenet_trt.overwrite import add_overwrite, guard, says
from lenet_trt.schema import json_text
from lenet_trt.tensorrt.plan_header import read_header
from lenet_trt.tensorrt.sidecar import read_sidecar, sidecar_path
from lenet_trt.tensorrt.summary import engine_rows, label_table, tensor_text
from lenet_trt.tensorrt.vouch import vouched

FLOATING_POINT = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def inspect_onnx(path: Path) -> dict[str, Any]:
    """Describe an ONNX file: tensors, operators, types, parameters.

    Raises:
        LenetTrtError: the file is missing, or it is not valid ONNX.
    """
    model = load_model(path)
    graph = model.graph
    return {
        "file": str(path),
        "sha256": sha256_file(path),
        "producer": " ".join(filter(None, (model.producer_name, model.producer_version))),
        "opsets": {entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
        "precision": sorted(kinds_of(model)),
        "parameters": sum(math.prod(tensor.dims) for tensor in graph.initializer if tensor.data_type in FLOATING_POINT),
        "operators": dict(Counter(_operator(node.domain, node.op_type) for node in graph.node).most_common()),
        "plugins": _plugins(model),
        "metadata": {entry.key: entry.value for entry in model.metadata_props},
        "tensors": described_tensors(model, {}),
    }


def inspect_engine(path: Path) -> dict[str, Any]:
    """Describe an engine by its sidecar, after checking that the sidecar belongs to it.

    Of an engine without a sidecar, which was made elsewhere, only the first bytes are read.

    Raises:
        LenetTrtError: the engine is missing, the sidecar is damaged, or they do not belong together.
    """
    if path.is_file() and not sidecar_path(path).exists():
        header = read_header(path)
        return {"file": str(path), "size_bytes": path.stat().st_size, "sha256": sha256_file(path), **asdict(header)}
    return asdict(vouched(path))


def _operator(domain: str, name: str) -> str:
    return f"{domain}::{name}" if domain else name


def _plugins(model: ModelProto) -> list[str]:
    """Return the plugins that `fuse` inserted: operators with a fallback function, or the kernels in a copy."""
    functions = {(function.domain, function.name) for function in model.functions}
    found = {_operator(*key) for key in functions if any((n.domain, n.op_type) == key for n in model.graph.node)}
    kernels = {entry["node"]: entry["kernel"] for entry in recorded(model)}
    copied = {kernels.get(node.name, node.name) for node in model.graph.node if holds_kernel(node)}
    return sorted(found | {_operator(DOMAIN, kernel) for kernel in copied})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("file", type=Path, metavar="FILE", help="an engine or an ONNX file")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument(
        "--svg", action="store_true", help="draw the graph of an ONNX file; a large one needs Graphviz to be readable"
    )
    parser.add_argument(
        "--timeline", type=Path, metavar="T.json", help="with --svg: a timeline, whose times are shown at the nodes"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="GRAPH.svg", help="with --svg; default: beside the model")
    add_overwrite(parser)


def command(arguments: argparse.Namespace) -> int:
    """Print a description of the file, or draw its graph."""
    path: Path = arguments.file
    if arguments.svg:
        return _draw(path, arguments.timeline, arguments.output, arguments.overwrite)
    if arguments.timeline or arguments.output:
        raise UsageError("--timeline and -o are options of the picture: add --svg")
    if path.suffix != ".onnx":
        found = inspect_engine(path)
        text = label_table(_unknown_rows(found) if "tag" in found else _engine_rows(path))
    else:
        found = inspect_onnx(path)
        text = label_table(_onnx_rows(path, found))
    print(json_text(found) if arguments.json else text)
    return 0


def _draw(path: Path, traced: Path | None, output: Path | None, overwrite: bool) -> int:
    from lenet_trt.draw.graph_svg import MARK, graph_svg
    from lenet_trt.trace.timeline import load_timeline

    if path.suffix != ".onnx":
        raise UsageError(
            f"--svg draws ONNX files, and {path.name} is not one: give the model from which the engine was built"
        )
    model = load_model(path)
    target = output or path.with_suffix(".svg")
    guard({target: says(MARK)}, [*model_files(path), traced], overwrite)
    told = report_stream(target)
    write_atomic(target, graph_svg(model, load_timeline(traced) if traced else None, path.name).encode("utf-8"))
    print(f"graph  {target}", file=told)
    return 0


def _engine_rows(path: Path) -> list[tuple[str, str]]:
    return [*engine_rows(path, read_sidecar(sidecar_path(path))), ("content", "as its sidecar says")]


def _unknown_rows(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe an engine that was made elsewhere, from its first bytes."""
    version = found["version"] or "of a version that is not in the header"
    return [
        ("engine", f"{found['file']}  ({found['size_bytes']:,} bytes)"),
        ("sha256", found["sha256"]),
        ("built by", f"{found['product']} {version} (the tag {found['tag']} in its first bytes)"),
        (
            "sidecar",
            "none: only deserializing, which can run the engine's code, would show targets, tensors and plugins",
        ),
        ("next", f"lenet-trt run {shlex.quote(found['file'])} --trust   # only if you trust its maker"),
    ]


def _onnx_rows(path: Path, found: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("model", f"{path}  ({path.stat().st_size:,} bytes)"),
        ("producer", found["producer"] or "not stated"),
        ("opset", ", ".join(f"{domain} {version}" for domain, version in found["opsets"].items())),
        ("precision", ", ".join(found["precision"])),
        ("parameters", f"{found['parameters']:,}"),
        ("operators", ", ".join(f"{count} {name}" for name, count in found["operators"].items())),
        ("plugins", ", ".join(found["plugins"]) or "none"),
    ]
    return rows + [(tensor["io"], tensor_text(name, tensor)) for name, tensor in found["tensors"].items()]


if __name__ == "__main__":
    from lenet_trt.cli import main

    raise SystemExit(main(["inspect", *sys.argv[1:]]))
