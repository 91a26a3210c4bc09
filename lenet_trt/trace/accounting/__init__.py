"""Make what the ledger and its findings need: the slices of an inference, and facts from a kernel's name."""
