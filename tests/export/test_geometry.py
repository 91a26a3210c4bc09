"""The shapes of LeNet-5, written out once more, and who has them from there."""

from __future__ import annotations

from lenet_trt.export import load_weights
from lenet_trt.export.geometry import CLASSES, IMAGE_SHAPE, LENET5, flops_per_image, layer_shapes, parameter_shapes
from lenet_trt.kernel import registry
from networks import LENET5 as AS_ONNX

PARAMETERS = {
    "conv1.weight": (6, 1, 5, 5),
    "conv1.bias": (6,),
    "conv2.weight": (16, 6, 5, 5),
    "conv2.bias": (16,),
    "fc1.weight": (120, 256),
    "fc1.bias": (120,),
    "fc2.weight": (84, 120),
    "fc2.bias": (84,),
    "fc3.weight": (10, 84),
    "fc3.bias": (10,),
}


def test_parameters_and_layers_are_those_of_the_shipped_network() -> None:
    assert parameter_shapes() == PARAMETERS
    assert list(parameter_shapes()) == list(PARAMETERS)
    assert {name: array.shape for name, array in load_weights().items()} == PARAMETERS
    assert [(layer_shapes()[layer.name]) for layer in LENET5[:7]] == [
        (6, 24, 24),
        (6, 24, 24),
        (6, 12, 12),
        (16, 8, 8),
        (16, 8, 8),
        (16, 4, 4),
        (256,),
    ]


def test_an_image_takes_this_many_operations() -> None:
    assert flops_per_image() == 2 * (6 * 24 * 24 * 25 + 16 * 8 * 8 * 150 + 256 * 120 + 120 * 84 + 84 * 10) == 563_280


def test_the_kernel_has_these_shapes() -> None:
    kernel = registry.kernel("lenet5")
    bound = kernel.bind_axes({"n": 3}, kernel.types[0])
    assert bound.input_shapes == ((3, *IMAGE_SHAPE), *PARAMETERS.values())
    assert [tensor.name for tensor in kernel.inputs[1:]] == [name.replace(".", "_") for name in PARAMETERS]
    assert bound.output_shapes == ((3, CLASSES),)
    assert bound.flops == 3 * flops_per_image()


def test_the_network_of_the_fusing_tests_has_these_shapes() -> None:
    assert (AS_ONNX.channels, AS_ONNX.height, AS_ONNX.width) == IMAGE_SHAPE
    assert [out for out, _, _ in AS_ONNX.convolutions] == [6, 16]
    assert [out for out, _ in AS_ONNX.denses] == [120, 84, CLASSES]
