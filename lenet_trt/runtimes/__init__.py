"""What can run a network: TensorRT, CUDA graphs of torch and our kernels, and ONNX Runtime; behind one protocol."""
