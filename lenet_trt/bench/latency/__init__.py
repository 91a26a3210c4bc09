"""Measure the suite ``latency``: how long a caller waits for one answer, from host array to host array."""
