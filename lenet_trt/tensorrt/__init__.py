"""TensorRT: its flavors and what each can do, engines, their sidecars, and the routes of kernels into TensorRT."""
