"""Run ONNX on any CUDA GPU with torch and our kernels, captured in one CUDA graph: the graph runtime."""
