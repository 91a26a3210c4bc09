"""Check that a kernel is what its declaration says: the verb ``check``."""
