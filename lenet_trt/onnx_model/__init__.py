"""Read and check ONNX models: inputs and outputs, shapes, precision and plugin nodes."""
