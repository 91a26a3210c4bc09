"""TensorRT: what each flavor can do, engines, their sidecars, and the routes by which kernels get in."""
