"""Optimize a model: the verb ``optimize``, with its candidates, the loop that tries them, the gate and the record."""
