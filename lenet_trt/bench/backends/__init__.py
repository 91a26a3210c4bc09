"""Run LeNet-5 in the ways that the suites ``10k`` and ``sweep`` compare, behind one small protocol."""
