"""Verb ``verify``: evidence from a user's own TensorRT and GPU, as one report."""
