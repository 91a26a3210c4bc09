"""Makes the ONNX files in this folder with tools that the tests do not install.

pip install tensorflow-cpu==2.21.0 tf2onnx==1.17.0 onnxsim==0.8.1 numpy onnx && python make.py
"""

from pathlib import Path

import keras
import numpy as np
import onnx
import onnxsim
import tensorflow as tf
import tf2onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(__file__).parent


def keras_network() -> keras.Model:
    """Two convolutions and two dense layers, channels last, as Keras has them."""
    layers = keras.layers
    keras.utils.set_random_seed(1)
    image = keras.Input((16, 18, 1), name="image")
    x = layers.Conv2D(3, 5, activation="relu", bias_initializer="random_normal")(image)
    x = layers.MaxPool2D()(x)
    x = layers.Conv2D(4, 5, bias_initializer="random_normal")(x)
    x = layers.Flatten()(layers.Dropout(0.5)(x))
    x = layers.Dense(7, activation="relu", bias_initializer="random_normal")(x)
    return keras.Model(image, layers.Dense(5, use_bias=False)(x))


def from_keras(opset: int) -> None:
    network = keras_network()
    signature = [tf.TensorSpec((None, 16, 18, 1), tf.float32, name="image")]
    model, _ = tf2onnx.convert.from_function(
        tf.function(lambda image: network(image, training=False)), input_signature=signature, opset=opset
    )
    onnx.save(model, FOLDER / f"tf2onnx-opset{opset}.onnx")


def simplified() -> None:
    """A network as torch's older exporter writes view(x.size(0), -1), after onnx-simplifier."""
    random = np.random.default_rng(2)
    weights = {
        "conv.weight": random.normal(size=(3, 1, 5, 5)),
        "conv.bias": random.normal(size=3),
        "fc.weight": random.normal(size=(126, 6)) / 11,
        "fc.bias": random.normal(size=6),
        "zero": np.array(0, dtype=np.int64),
        "axis": np.array([0], dtype=np.int64),
        "rest": np.array([-1], dtype=np.int64),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], kernel_shape=[5, 5]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Identity", ["p"], ["i"]),
        node("Shape", ["i"], ["s"]),
        node("Gather", ["s", "zero"], ["b"]),
        node("Unsqueeze", ["b", "axis"], ["u"]),
        node("Concat", ["u", "rest"], ["t"], axis=0),
        node("Reshape", ["i", "t"], ["f"]),
        node("MatMul", ["f", "fc.weight"], ["m"]),
        node("Add", ["m", "fc.bias"], ["y"]),
    ]
    tensors = [
        numpy_helper.from_array(v if v.dtype == np.int64 else v.astype(np.float32), k) for k, v in weights.items()
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 16, 18])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 6])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    simple, same = onnxsim.simplify(model)
    assert same
    onnx.save(simple, FOLDER / "onnxsim.onnx")


if __name__ == "__main__":
    from_keras(13)
    from_keras(18)
    simplified()
