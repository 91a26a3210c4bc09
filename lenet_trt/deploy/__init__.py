"""Verb ``deploy``: make what a server needs of a network, such as a model repository of Triton."""
