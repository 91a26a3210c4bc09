"""Verb ``library``: compile the C++ plugin library."""
