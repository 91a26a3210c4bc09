"""Train LeNet-5 on MNIST and write its weights: the verb ``train``."""
