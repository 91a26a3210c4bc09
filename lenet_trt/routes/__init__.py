"""Keep the import path of ``lenet_trt.routes.torch_op``, which docs/write-a-plugin.md names."""
