"""Run by test_python.py in a process of its own: plugins of a network that is gone, then many others; ends if the heap
is damaged.
"""

from __future__ import annotations

import ctypes

import onnx

from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.fuse.stage import fuse
from lenet_trt.kernel import registry
from lenet_trt.kernel.attributes import chosen_values
from lenet_trt.kernel.pattern import DOMAIN
from lenet_trt.tensorrt import flavors
from lenet_trt.tensorrt.routes import python

NETWORKS = ("lenet5", "conv5x5_bias_relu_pool2,dense_bias_relu", "conv5x5_bias,maxpool2,dense_bias_relu")
PLUGINS = 300


def main() -> None:
    trt = flavors.select("rtx").trt
    heap = ctypes.CDLL(None)
    kernel = registry.kernel("dense_bias_relu")
    python.register_creators(trt, registry.kernels().values())
    for plugins in NETWORKS:
        logger = trt.Logger(trt.Logger.ERROR)
        builder = trt.Builder(logger)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = trt.OnnxParser(network, logger)
        assert parser.parse(fuse(onnx.load(SHIPPED), plugins).model.SerializeToString())
        del parser, network, builder
    creator = trt.get_plugin_registry().get_creator(kernel.name, kernel.version, DOMAIN)
    for number in range(PLUGINS):
        arrays = python.stored_arrays(kernel, chosen_values(kernel, {"relu": number % 2}))
        plugin = creator.create_plugin("p", python.plugin_fields(trt, kernel, arrays), trt.TensorRTPhase.BUILD)
        assert plugin.attributes == {"relu": number % 2}
        heap.malloc_trim(0)  # looks through the free memory


if __name__ == "__main__":
    main()
