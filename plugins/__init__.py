"""Hold the CUDA kernels: each has a folder with its math in ``kernel.cu`` and its declaration in ``__init__.py``."""
