"""The runtimes of a network, with one protocol: TensorRT, CUDA graphs of torch and our kernels, ONNX Runtime."""
