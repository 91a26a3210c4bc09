"""The verb ``build``: ONNX in; engine, sidecar and the model that was built out."""
