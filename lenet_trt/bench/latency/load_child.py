"""Keep a core or the GPU busy until killed, or until the parent process is gone."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Work; the one argument is "gpu" or "cpu"."""
    parent = os.getppid()
    if sys.argv[1] == "cpu":
        print("ready", flush=True)
        while os.getppid() == parent:
            for _ in range(100_000):
                pass
        return 0
    from lenet_trt.bench.latency.loads import stream_of_work

    again = stream_of_work()
    again()
    print("ready", flush=True)
    while os.getppid() == parent:
        again()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
