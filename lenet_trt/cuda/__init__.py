"""Use the GPU: its driver, the compiler, launches, timing and statistics."""
