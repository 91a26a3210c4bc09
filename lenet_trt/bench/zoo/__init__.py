"""Survey where TensorRT loses time: networks of many kinds with random weights, and the suite that measures them."""
