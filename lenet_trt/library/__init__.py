"""Compile the C++ plugin library: the verb ``library``."""
