"""Tune kernels for the GPU here: the verb ``tune``, with the calls that it times and what follows from the times."""
