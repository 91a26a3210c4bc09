"""The ahead-of-time route: accepted by the real ``tensorrt.plugin``, and refused plainly where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import tensorrt_stubs
from declared_kernels import DECLARED
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import registry
from lenet_trt.kernel.dims import axes
from lenet_trt.tensorrt import flavors as flavor
from lenet_trt.tensorrt.routes import ptx

n, c, m = axes("n c m")


@pytest.mark.slow
@pytest.mark.skipif(tensorrt_stubs.missing() is not None, reason=str(tensorrt_stubs.missing()))
def test_types_ptx_and_symbolic_launch_are_what_tensorrt_takes() -> None:
    script = Path(__file__).with_name("ptx_contract.py")
    answer = json.loads(tensorrt_stubs.run_with_bindings(script).splitlines()[-1])
    assert int(answer["version"].split(".")[0]) >= 10
    assert set(answer["tactics"]) == {*registry.kernels(), *DECLARED}
    assert all(count >= 1 for count in answer["tactics"].values())
    # Every variant that can run a profile is a tactic of it, wherever it is preferred: the builder times them.
    lenet5 = registry.kernel("lenet5")
    able = {variant.name for variant in lenet5.variants_for(90, lenet5.types[0])}
    assert {name: set(variants) for name, variants in answer["ranges"].items()} == dict.fromkeys(answer["ranges"], able)


def test_tensorrt_rtx_has_no_such_plugins_and_the_error_says_what_to_use() -> None:
    with pytest.raises(LenetTrtError, match="route python"):
        ptx.register_ptx(flavor.select("rtx").trt, registry.kernels().values())


def specialized(**sizes: int) -> SimpleNamespace:
    return SimpleNamespace(known_sizes=sizes)


@pytest.mark.parametrize(
    ("condition", "bounds", "fits"),
    [
        (None, [{"n": 1}, {"n": 9}], True),
        (n <= 9, [{"n": 1}, {"n": 9}], True),
        (n <= 8, [{"n": 1}, {"n": 9}], False),
        (n > 4, [{"n": 1}, {"n": 9}], False),
        (n.multiple_of(4), [{"n": 4}, {"n": 8}], False),  # 5 lies between
        (n.multiple_of(4), [{"n": 8}], True),
        (c.multiple_of(4), [{"n": 1}, {"n": 9}], True),
        (c.multiple_of(4) & (n <= 8), [{"n": 1}, {"n": 9}], False),
        (n <= 2 * m, [{"n": 1, "m": 1}, {"n": 9, "m": 9}], False),  # 9 and 1 lie between
        (n <= 9 * m, [{"n": 1, "m": 1}, {"n": 9, "m": 9}], True),
        (n * 2 <= n + 10, [{"n": 1}, {"n": 9}], False),  # not told from the ends
    ],
)
def test_a_variant_is_a_tactic_only_if_it_fits_every_size_of_the_profile(condition, bounds, fits) -> None:
    assert ptx._fits(condition, bounds, specialized(c=8)) is fits
