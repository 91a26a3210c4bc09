"""The GPU: its driver, the compiler, launches, timing and statistics."""
