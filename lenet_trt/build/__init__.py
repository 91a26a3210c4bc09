"""Build an engine from ONNX, with a sidecar and the model that was built: the verb ``build``."""
