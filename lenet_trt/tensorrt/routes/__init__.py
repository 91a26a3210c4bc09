"""The routes by which a declared kernel reaches TensorRT, one module a route."""
