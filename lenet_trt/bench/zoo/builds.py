"""Build the networks of the survey by TensorRT-RTX without a GPU: which build, and which operators are not taken."""

from __future__ import annotations

import time
from collections.abc import Mapping

import onnx

from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.shapes import Shape
from lenet_trt.onnx_model.profiles import Profile
from lenet_trt.tensorrt.engine import engine_from_onnx, error_log
from lenet_trt.tensorrt.flavors import Flavor
from lenet_trt.tensorrt.readable import readable

# GeForce RTX 30: the oldest architecture of the portable plans.
TARGET_SM = 86


def build_facts(
    model: onnx.ModelProto, flavor: Flavor, shapes: tuple[Mapping[str, Shape], Mapping[str, Shape]]
) -> dict[str, int | float]:
    """Build an engine from the smallest to the largest of these shapes, and return its layers, bytes and seconds.

    The layers are those of the network before TensorRT fuses them: what is in an engine, only a GPU can tell.

    Raises:
        LenetTrtError: TensorRT refused the model or could not build it; carries TensorRT's own words.
    """
    smallest, largest = shapes
    profiles = {name: Profile(smallest[name], largest[name], largest[name]) for name in smallest}
    begin = time.monotonic()
    plan = engine_from_onnx(model, flavor, profiles=profiles, targets=(TARGET_SM,))
    seconds = round(time.monotonic() - begin, 1)
    return {"build_seconds": seconds, "engine_bytes": len(plan), "network_layers": _parsed_layers(model, flavor)}


def _parsed_layers(model: onnx.ModelProto, flavor: Flavor) -> int:
    trt = flavor.trt
    log = error_log(trt)
    network = trt.Builder(log).create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    if not trt.OnnxParser(network, log).parse(readable(model, flavor.can).SerializeToString()):
        raise LenetTrtError(f"{flavor.product} cannot read this model a second time: {'; '.join(log.errors)}")
    return int(network.num_layers)
