"""The benchmark: contenders of each workload, timed in turns, checked against float64, compared with floors."""
