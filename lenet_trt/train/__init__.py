"""The verb ``train``: train LeNet-5 on MNIST and write its weights."""
