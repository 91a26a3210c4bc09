"""Verb ``quantize``: put int8 or float8 Q/DQ into an ONNX model, calibrated on training images."""
