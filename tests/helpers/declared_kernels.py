"""The small kernels of tests/kernels, each with something that a declaration can say."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

from lenet_trt.kernel import AttributeValue, Kernel, registry

FOLDER = Path(__file__).parents[1] / "kernels"
WITH_ATTRIBUTES = ("average_pool3", "leaky_relu", "topk_values")
DECLARED = (*WITH_ATTRIBUTES, "abs_packed", "split_softmax")


def declared(name: str) -> Kernel:
    """The kernel of that name, of these or of the toolkit's own."""
    return registry.load_kernel(FOLDER / name) if (FOLDER / name).is_dir() else registry.kernel(name)


def last_attributes(kernel: Kernel, example: Mapping[str, int]) -> dict[str, AttributeValue]:
    """The last values to check with that an example allows."""
    values = [[(a.name, value) for value in a.examples] for a in kernel.attributes]
    combinations = [dict(each) for each in itertools.product(*values)]
    return [each for each in combinations if kernel.takes(example, each)][-1]
