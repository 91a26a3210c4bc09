"""Who traces a run (Nsight Systems, CUPTI, a runtime's own profiler, trtexec), and the program that is traced."""
