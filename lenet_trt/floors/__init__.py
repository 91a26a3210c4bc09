"""What the hardware needs for the work of a model: bytes and operations against measured or stated ceilings."""
