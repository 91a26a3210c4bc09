"""Run by test_library.py: builds engines with TensorRT-RTX through the plugin library, in a process of its own.

Arguments: the library, then ONNX files. Prints a line of JSON for each. The first engine contains the library.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx

from lenet_trt.tensorrt import flavors as flavor

SIZES = (1, 4, 9)


def main(library: str, files: list[str]) -> None:
    """Build each file's engine."""
    trt = flavor.select("rtx").trt
    logger = trt.Logger(trt.Logger.WARNING)
    plugins = trt.get_plugin_registry()
    assert plugins.load_library(library) is not None
    for file in files:
        builder = trt.Builder(logger)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = trt.OnnxParser(network, logger)
        content = Path(file).read_bytes()
        assert parser.parse(content), [parser.get_error(i).desc() for i in range(parser.num_errors)]
        config = builder.create_builder_config()
        profile = builder.create_optimization_profile()
        inputs = [network.get_input(i) for i in range(network.num_inputs)]
        for tensor in inputs:
            profile.set_shape(tensor.name, *([max(d, 0) or size for d in tensor.shape] for size in SIZES))
        if any(-1 in tuple(tensor.shape) for tensor in inputs):
            config.add_optimization_profile(profile)
        config.num_compute_capabilities = 1
        config.set_compute_capability(trt.ComputeCapability.SM86, 0)
        if file == files[0]:
            config.plugins_to_serialize = [library]
        layers = [network.get_layer(i) for i in range(network.num_layers)]
        plan = builder.build_serialized_network(network, config)
        assert plan is not None
        engine = bytes(plan)
        node = onnx.load_from_string(content).graph.node[0]
        data = next(attribute.t.raw_data for attribute in node.attribute if attribute.name == "data")
        answer = {
            "plugins": [layer.name for layer in layers if layer.type == trt.LayerType.PLUGIN_V3],
            "engine_bytes": len(engine),
            "has_data": data in engine,
            "has_library": Path(library).read_bytes() in engine,
            "outputs": [list(network.get_output(i).shape) for i in range(network.num_outputs)],
        }
        print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
