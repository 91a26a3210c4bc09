"""LeNet-5 and other small networks on TensorRT: engines, hand-written plugins, and where the time goes."""

__version__ = "0.1.0"
