"""Classify more images than one process can: Ray Data reads and shares them out, a worker per GPU holds the network."""

from lenet_trt.run.on_ray.dataset import classify_dataset
from lenet_trt.run.on_ray.stage import JobSummary, classify_files

__all__ = ["JobSummary", "classify_dataset", "classify_files"]
