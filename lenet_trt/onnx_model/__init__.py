"""An ONNX model: read and checked, its inputs and outputs, shapes, precision and plugin nodes."""
