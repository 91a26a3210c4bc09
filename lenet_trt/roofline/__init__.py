"""The verb ``roofline``: what each node of a model has to do, and how long the hardware would need for it."""
