"""What the ledger and its findings are made from: the slices of an inference, and what a kernel's name says."""
