"""Say what can run on this machine, and what to install for the rest: the verb ``doctor``."""
