"""ONNX models: reading and checking, inputs and outputs, shapes, precision and plugin nodes."""
