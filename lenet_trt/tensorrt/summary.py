"""Describe an engine in a few lines for people; `build` and `inspect` print the same lines."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lenet_trt.cuda.gpus import sm_text
from lenet_trt.errors import documentation
from lenet_trt.onnx_model.ports import Port, classifies_images
from lenet_trt.tensorrt.capabilities import capabilities
from lenet_trt.tensorrt.find_library import DEFAULT_LIBRARY
from lenet_trt.tensorrt.flavors import PRODUCTS, RTX_PORTABLE_SMS
from lenet_trt.tensorrt.routes import recorded_route
from lenet_trt.tensorrt.sidecar import Sidecar, model_path, sidecar_path


def label_table(rows: Sequence[tuple[str, str]]) -> str:
    """Lay out label and value in two columns."""
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label:<{width}}  {value}".rstrip() for label, value in rows)


def engine_rows(engine: Path, sidecar: Sidecar) -> list[tuple[str, str]]:
    """Describe an engine from its sidecar."""
    inputs = sidecar.inputs
    rows = [
        ("engine", f"{engine}  ({sidecar.engine.size_bytes:,} bytes)"),
        ("sidecar", str(sidecar_path(engine))),
        ("model", f"{model_path(engine)}  from {sidecar.origin}"),
        ("built by", f"{PRODUCTS[inputs['flavor']]} {inputs['flavor_version']}"),
        ("runs on", runs_on(inputs)),
        ("precision", _precision_text(inputs)),
    ]
    rows += [("plugin", _plugin_text(entry)) for entry in sidecar.plugins]
    if not sidecar.plugins and (plugins := inputs.get("plugins", "none")) != "none":
        rows.append(("plugin", f"none: --plugins {plugins} takes no kernel for this network (lenet-trt fuse says why)"))
    if sidecar.library is not None:
        rows.append(("library", f"{sidecar.library.name}  (SHA-256 {sidecar.library.sha256[:16]}...), loaded first"))
    rows += [(tensor["io"], tensor_text(name, tensor)) for name, tensor in sidecar.tensors.items()]
    return [*rows, ("accuracy", accuracy_text(sidecar.evaluation))]


def _precision_text(inputs: Mapping[str, Any]) -> str:
    text = inputs["precision"] or "as the model has it"
    return f"{text}, fp32 products in TF32" if inputs["options"]["tf32"] else text


def _plugin_text(entry: Mapping[str, Any]) -> str:
    text = f"{entry['node']}: {entry['kernel']}"
    return f"{text} ({entry['types']}) replaces {', '.join(entry['replaced'])}" if entry["replaced"] else text


def runs_on(inputs: Mapping[str, Any]) -> str:
    """Return the GPUs for which the engine is."""
    if inputs["gpu"] is not None:
        return f"{inputs['gpu']}, where it was built"
    if inputs["targets"]:
        return f"GPUs of compute capability {', '.join(inputs['targets'])}"
    return (
        f"GPUs of compute capability {', '.join(map(sm_text, RTX_PORTABLE_SMS))} (GeForce RTX 30, 40, 50; "
        "RTX 20 needs --sm 7.5; others, such as 9.0, need --flavor tensorrt)"
    )


def tensor_text(name: str, tensor: Mapping[str, Any]) -> str:
    """Return one input or output with its type, axes and profile."""
    text = f"{name} {tensor['dtype']} [{', '.join(map(str, tensor['shape']))}]"
    if "profile" in tensor:
        low, usual, high = ("x".join(map(str, tensor["profile"][kind])) for kind in ("min", "opt", "max"))
        text += f", from {low} to {high}, tuned for {usual}"
    return text


def accuracy_text(evaluation: Mapping[str, Any]) -> str:
    """Return the accuracy of the model, and how it was measured."""
    if evaluation["problem"] is not None:
        return f"not measured: {evaluation['problem']}"
    difference = difference_text(evaluation)
    if evaluation["correct"] is None:
        return f"{difference} ({evaluation['method']}; {evaluation.get('data', 'random inputs')})"
    share = 100 * evaluation["correct"] / evaluation["total"]
    text = f"{share:.2f}% of {evaluation['total']:,} {evaluation.get('data', 'MNIST test images')}"
    if evaluation["difference"] != 0:
        before = 100 * evaluation["correct_before"] / evaluation["total"]
        text += f" ({before:.2f}% before conversion; {difference})"
    return f"{text}; {evaluation['method']}"


def difference_text(evaluation: Mapping[str, Any]) -> str:
    """Return how far the outputs are from those of the model given."""
    if evaluation["difference"] is not None:
        return f"outputs differ from the model given by {evaluation['difference']:.1e} in norm"
    if evaluation.get("infinite") == "given":
        return "outputs differ from the model given where that has NaN or infinity"
    return "outputs are NaN or infinite where those of the model given are numbers"


def next_commands(engine: Path, sidecar: Sidecar, library: Path | None = None) -> list[str]:
    """Return what to type after a build; ``library``: the plugin library with which it was built."""
    file = shlex.quote(str(engine))
    shapes = ",".join(
        f"{name}:{'x'.join(map(str, tensor['profile']['opt']))}"
        for name, tensor in sidecar.tensors.items()
        if "profile" in tensor
    )
    library = library or (None if sidecar.library is None else Path(sidecar.library.name))
    run = _run_command(engine, sidecar, None if library == DEFAULT_LIBRARY else library)
    if any(recorded_route(entry["route"]).program_obstacle() is not None for entry in sidecar.plugins):
        return [run, f"load it from Python, with its plugins registered first: {documentation('plugins')}"]
    inputs = sidecar.inputs
    tool = "tensorrt_rtx" if inputs["flavor"] == "rtx" else "trtexec"
    words = [tool, f"--loadEngine={file}"]
    if library is not None:
        words.append(program_option(inputs["flavor"], inputs["flavor_version"], library))
    if shapes:
        words.append(f"--shapes={shlex.quote(shapes)}")
    return [run, f"{' '.join(words)}   # on one of those GPUs"]


def _run_command(engine: Path, sidecar: Sidecar, library: Path | None) -> str:
    """Return what runs the engine: the verb, or Python where the network takes no images that the verb can read."""
    found: dict[str, list[Port]] = {"input": [], "output": []}
    for name, tensor in sidecar.tensors.items():
        found[tensor["io"]].append(Port(name, tensor["dtype"], tuple(tensor["shape"])))
    if classifies_images(found["input"], found["output"]):
        option = "" if library is None else f" --library {shlex.quote(str(library))}"
        return f"lenet-trt run {shlex.quote(str(engine))}{option}"
    file, *others = (json.dumps(str(path), ensure_ascii=False) for path in (engine, library) if path is not None)
    where = "".join(f", library={other}" for other in others)
    program = f"from lenet_trt.run import load; print(load({file}{where}).inputs)"  # no ' in it, so that it reads well
    return f"python -c {shlex.quote(program)}"


def program_option(flavor: str, version: str, library: Path) -> str:
    """Return the option with which ``trtexec`` of this release opens a plugin library."""
    path = str(library) if library.parent != Path() else f"./{library}"  # dlopen looks elsewhere for a bare name
    return f"{capabilities(flavor, version).program_option}={shlex.quote(path)}"
