"""Verb ``compare``: engines of one network against each other, by trtexec."""
