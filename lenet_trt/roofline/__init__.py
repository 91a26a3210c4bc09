"""Compute what each node of a model needs, and the time that the hardware needs for it: the verb ``roofline``."""
