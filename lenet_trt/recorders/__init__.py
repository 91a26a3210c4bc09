"""Who traces a run: Nsight Systems, CUPTI in process, a runtime's own profiler, trtexec; and the program that is traced."""
