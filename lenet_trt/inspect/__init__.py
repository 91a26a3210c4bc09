"""The verb ``inspect``: what is in an engine or an ONNX file."""
