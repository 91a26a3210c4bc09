"""Bring a model into a normal form, match patterns, and replace matches by plugin nodes: the verb ``fuse``.

``working_copy`` is the graph that is rewritten; ``normal_form`` with ``dialects`` and ``flattening`` brings it into one
dialect, ``attention`` and ``self_attention`` with ``movement`` and ``rolls`` that of transformers. ``joined_layers``
and ``row_order`` bring layers to where a kernel can have them, after ``constant_sizes``, and ``dense_pixels`` writes
pointwise convolutions as dense layers; ``match`` and ``places`` find where kernels fit and choose, also ``beside``
others; ``cut``, ``onnx_function`` and ``assemble`` put the plugin nodes into the model, each with a function made of
the nodes that it replaces.
"""
