"""Run by test_bad_input.py: gives models to TensorRT-RTX's parser and builder with the plugin library loaded.

Arguments: the library, then ONNX files. Prints a line of JSON for each file: how far it got, and what TensorRT said.
All files are read by one process, so that a refusal that spoils what comes later is seen.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lenet_trt.tensorrt import flavors
from lenet_trt.tensorrt.engine import error_log


def main(library: str, files: list[str]) -> None:
    """Parse and build each file."""
    trt = flavors.select("rtx").trt
    log = error_log(trt)
    assert trt.get_plugin_registry().load_library(library) is not None
    for file in files:
        log.errors.clear()
        print("-- next model", file=sys.stderr, flush=True)
        print(json.dumps({"reached": _reached(trt, log, Path(file).read_bytes()), "said": log.errors}), flush=True)


def _reached(trt: object, log: object, content: bytes) -> str:
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, log)
    if not parser.parse(content):
        return "model"
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(trt.ComputeCapability.SM86, 0)
    return "network" if builder.build_serialized_network(network, config) is None else "engine"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
