"""The graph runtime: ONNX on any CUDA GPU by torch and our kernels, captured in one CUDA graph."""
