"""A script in trtexec's place that runs the plain model by ONNX Runtime, for the suite ``engines`` and ``verify``.

It stands for the program's options, exports and failures; what a real one builds and runs is measured on a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from lenet_trt.bench import engines, trtexec_engines
from lenet_trt.bench.engine_workloads import EngineWorkload
from lenet_trt.bench.suite import SuiteOptions
from lenet_trt.cuda.gpus import Gpu

GPU = Gpu(0, "a GPU", 90, 1 << 30)
_TRTEXEC = """#!PYTHON
import json, os, pathlib, sys
options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
print("&&&& RUNNING TensorRT.trtexec [TensorRT v8600] # trtexec")
if "help" in options:
    print("--loadEngine --iterations --duration --exportProfile --exportLayerInfo --exportTimes --buildOnly "
          "--useCudaGraph --useSpinWait --noDataTransfers --staticPlugins --noTF32 --builderOptimizationLevel "
          "--profilingVerbosity --fp16 --avgTiming")
    sys.exit()
with open(__file__ + ".calls", "a") as calls:
    calls.write(json.dumps(options) + "\\n")
if "saveEngine" in options:
    if "fails" in options:
        sys.exit("[E] the builder refuses")
    if "noCublas" in options and "staticPlugins" in options:
        sys.exit("[E] Error[3]: SymbolAddress for cublasCreate_v2 could not be loaded")
    pathlib.Path(options["saveEngine"]).write_bytes(pathlib.Path(options["onnx"]).read_bytes())
    sys.exit(139)  # as trtexec 8.6 ends, the engine saved
if "exportTimes" in options:
    if "staticPlugins" in options and "CRASH" in os.environ:
        sys.exit("[E] [TRT] plugin node n (lenet5 (fp32), enqueue): cannot launch variant split")
    us = 5.0 if "staticPlugins" in options else 20.0
    if (told := pathlib.Path(options["loadEngine"] + ".us")).is_file():
        us = float(told.read_text())
    others = ("startH2dMs", "startComputeMs", "startEnqMs", "endEnqMs", "h2dMs", "d2hMs")
    entries = [{**dict.fromkeys(others, 0), "computeMs": us / 1e3}] * int(options["iterations"])
    pathlib.Path(options["exportTimes"]).write_text(json.dumps(entries))
    layers = [{"Name": "conv1 + relu1", "LayerType": "Convolution", "TacticName": "sm80_xmma"}, "a reformat"]
    if "exportLayerInfo" in options:
        pathlib.Path(options["exportLayerInfo"]).write_text(json.dumps({"Layers": layers}))
else:
    import numpy as np, onnxruntime  # loaded for this alone: they take longer than all the rest
    session = onnxruntime.InferenceSession(pathlib.Path(options["loadEngine"]).read_bytes())
    files = dict(each.split(":") for each in options["loadInputs"].split(","))
    shapes = dict(each.split(":") for each in options.get("shapes", "").split(",") if each)
    inputs = {}
    for each in session.get_inputs():
        shape = [int(size) for size in shapes[each.name].split("x")] if each.name in shapes else each.shape
        inputs[each.name] = np.fromfile(files[each.name], np.float32).reshape(shape)
    answer = [
        {"name": each.name, "dimensions": "x".join(map(str, y.shape)), "values": y.ravel().tolist()}
        for each, y in reversed(list(zip(session.get_outputs(), session.run(None, inputs))))  # in no certain order
    ]
    pathlib.Path(options["exportOutput"]).write_text(json.dumps(answer))
"""


def script_for_trtexec(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "LeNet-5 fp32") -> Path:
    """Write the script and a library beside it, and leave one workload."""
    program = write_trtexec(folder)
    write_library(folder / "plugins.so", "8.6")
    # Kernels are not compiled here: what is embedded is tested elsewhere, and the script runs the plain model.
    every = engines.engine_workloads

    def workloads(options: SuiteOptions) -> list[EngineWorkload]:
        one = next(workload for workload in every(options) if workload.name.startswith(name))
        return [replace(one, model=replace(one.model, fused=lambda: one.model.typed))]

    def embedded(model: onnx.ModelProto, targets: Sequence[str]) -> onnx.ModelProto:
        assert targets == [f"sm_{GPU.sm}"]
        return model

    monkeypatch.setattr(engines, "engine_workloads", workloads)
    monkeypatch.setattr(trtexec_engines, "embedded", embedded)
    return program


def write_trtexec(folder: Path) -> Path:
    """Write the script alone. An engine takes 20 us, with a library 5 us, or what the file ENGINE.us says."""
    program = folder / "trtexec"
    program.write_text(_TRTEXEC.replace("PYTHON", sys.executable))
    program.chmod(0o755)
    return program


def write_library(path: Path, version: str) -> None:
    """What is read of a plugin library before it is loaded."""
    path.write_bytes(b"\x7fELF" + bytes(60) + b"lenet_trt plugin library for TensorRT " + version.encode() + b"\0")
