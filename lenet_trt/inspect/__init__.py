"""Describe an engine or an ONNX file: the verb ``inspect``."""
