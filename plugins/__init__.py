"""The CUDA kernels: one folder a kernel, its math in ``kernel.cu``, its declaration in ``__init__.py``."""
