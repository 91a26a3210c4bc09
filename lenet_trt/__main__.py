"""Run the command line ``python -m lenet_trt VERB``."""

from lenet_trt.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
