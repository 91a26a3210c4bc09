"""The ways to run LeNet-5 that the suites ``10k`` and ``sweep`` compare, behind one small protocol."""
