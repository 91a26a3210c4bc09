"""Run networks by one protocol: TensorRT, CUDA graphs of torch and our kernels, ONNX Runtime."""
