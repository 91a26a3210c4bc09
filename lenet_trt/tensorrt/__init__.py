"""Use TensorRT: its flavors and their capabilities, engines, their sidecars, and the routes of kernels into it."""
