"""The norm of groups of channels: its own sources, run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_on_cpu import disagreement_on_cpu, needs_gcc, unchanged
from lenet_trt.kernel import AttributeValue, registry

KERNEL, HALF = registry.kernel("group_norm"), registry.kernel("group_norm_half")
ADDS, TOKENS = registry.kernel("add_group_norm_half"), registry.kernel("group_norm_half_tokens")
Sizes = tuple[dict[str, int], dict[str, AttributeValue]]
# Packs of one channel; packs of several; rows that begin between two packs; more than a block's threads take at a time;
# more than they hold, and than a cluster's do.
WHOLE: Sizes = ({"n": 2, "c": 12, "s": 40}, {"group": 3, "epsilon": 1e-5, "activation": "silu"})
MIXED: Sizes = ({"n": 2, "c": 24, "s": 9}, {"group": 4, "epsilon": 1e-3, "activation": "none"})
SHIFTED: Sizes = ({"n": 3, "c": 10, "s": 103}, {"group": 2, "epsilon": 1e-5, "activation": "relu"})
LARGE: Sizes = ({"n": 1, "c": 6, "s": 5000}, {"group": 2, "epsilon": 1e-5, "activation": "gelu"})
LARGER: Sizes = ({"n": 2, "c": 3, "s": 11003}, {"group": 1, "epsilon": 1e-5, "activation": "none"})
LARGEST: Sizes = ({"n": 1, "c": 2, "s": 134001}, {"group": 1, "epsilon": 1e-5, "activation": "none"})


@needs_gcc
@pytest.mark.parametrize("variant", ["row256", "row512", "cluster8"])
@pytest.mark.parametrize(
    ("sizes", "types"),
    [(WHOLE, "fp32"), (MIXED, "fp16"), (SHIFTED, "fp32"), pytest.param(SHIFTED, "bf16", marks=pytest.mark.slow)],
    ids=str,
)
def test_the_source_computes_the_reference(
    sizes: Sizes, types: str, variant: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_on_cpu(KERNEL, variant, *sizes, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize(
    ("variant", "sizes"),
    [("row256", LARGE), ("row512", LARGE), ("cluster8", LARGE), ("row512", LARGER), ("cluster8", LARGEST)],
    ids=str,
)
def test_several_packs_a_thread_are_the_same(
    variant: str, sizes: Sizes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_on_cpu(KERNEL, variant, *sizes, unchanged, tmp_path_factory) is None


@needs_gcc
@pytest.mark.parametrize("variant", ["row256", "cluster8"])
def test_an_infinity_stays_in_its_group(variant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][1, 4, 7] = np.inf

    assert disagreement_on_cpu(KERNEL, variant, *WHOLE, change, tmp_path_factory) is None


# Groups that are eights, several in a slab; of 10 channels, which share eights; of 3; one group; many pixels a thread;
# more than it holds, and than a cluster's do.
EIGHTS: Sizes = ({"n": 2, "c": 64, "h": 3, "w": 11}, {"group": 8, "epsilon": 1e-5, "activation": "silu"})
TENS: Sizes = ({"n": 1, "c": 80, "h": 5, "w": 7}, {"group": 8, "epsilon": 1e-5, "activation": "none"})
THREES: Sizes = ({"n": 2, "c": 48, "h": 4, "w": 5}, {"group": 16, "epsilon": 1e-3, "activation": "relu"})
ONE: Sizes = ({"n": 1, "c": 24, "h": 1, "w": 3}, {"group": 1, "epsilon": 1e-5, "activation": "none"})
PIXELS: Sizes = ({"n": 1, "c": 16, "h": 30, "w": 41}, {"group": 2, "epsilon": 1e-5, "activation": "gelu"})
MORE: Sizes = ({"n": 1, "c": 40, "h": 29, "w": 37}, {"group": 4, "epsilon": 1e-5, "activation": "none"})
MOST: Sizes = ({"n": 1, "c": 40, "h": 83, "w": 89}, {"group": 4, "epsilon": 1e-5, "activation": "none"})


@needs_gcc
@pytest.mark.parametrize("variant", ["cluster8", "block"])
@pytest.mark.parametrize(
    ("sizes", "types"),
    [(EIGHTS, "fp16"), (TENS, "fp16"), (THREES, "bf16"), (ONE, "fp16"), (PIXELS, "fp16")],
    ids=str,
)
def test_channels_last_are_the_same(
    sizes: Sizes, types: str, variant: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_on_cpu(HALF, variant, *sizes, unchanged, tmp_path_factory, types) is None


@needs_gcc
@pytest.mark.parametrize(("variant", "sizes"), [("block", MORE), ("cluster8", MOST)], ids=str)
def test_what_a_slab_does_not_hold_is_read_again(
    variant: str, sizes: Sizes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert disagreement_on_cpu(HALF, variant, *sizes, unchanged, tmp_path_factory, "fp16") is None


@needs_gcc
def test_an_infinity_stays_in_its_group_of_a_slab(tmp_path_factory: pytest.TempPathFactory) -> None:
    def change(plain: list[np.ndarray]) -> None:
        plain[0][0, 14, 2, 3] = np.inf

    assert disagreement_on_cpu(HALF, "cluster8", *TENS, change, tmp_path_factory, "fp16") is None


@needs_gcc
@pytest.mark.parametrize("variant", ["cluster8", "block"])
@pytest.mark.parametrize("sizes", [EIGHTS, TENS], ids=str)
def test_what_is_added_is_of_its_image(sizes: Sizes, variant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert disagreement_on_cpu(ADDS, variant, *sizes, unchanged, tmp_path_factory, "fp16") is None


@needs_gcc
@pytest.mark.parametrize("variant", ["cluster8", "block"])
def test_tokens_lie_as_maps_do(variant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert disagreement_on_cpu(TOKENS, variant, *TENS, unchanged, tmp_path_factory, "fp16") is None
