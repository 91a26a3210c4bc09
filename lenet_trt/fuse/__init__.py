"""Verb ``fuse``: bring a model into one normal form, match patterns in it, replace matches by plugin nodes.

``working_copy`` is the graph that is rewritten; ``normal_form`` with ``dialects`` and ``flattening`` brings it into one
dialect; ``match`` and ``places`` find where kernels fit and choose; ``cut``, ``onnx_function`` and ``assemble`` put the
plugin nodes into the model, each with a function made of the nodes that it replaces.
"""
