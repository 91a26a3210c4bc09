"""What the nodes of an ONNX model have to do, counted from their shapes."""
