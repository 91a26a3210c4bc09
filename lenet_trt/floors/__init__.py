"""Compute what the hardware needs for a model's work: bytes and operations against measured or stated ceilings."""
