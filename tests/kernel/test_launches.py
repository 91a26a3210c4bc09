"""Calls of several launches, and workspace: what is refused, what each launch compiles as, how much memory suffices."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from declared_kernels import FOLDER, declared
from expressions import EXPRESSIONS, SIZES
from lenet_trt.check.__main__ import check_kernel
from lenet_trt.cli import main
from lenet_trt.cuda.compile import compile_variant, source_sha256
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import Launch, Variant, registry
from lenet_trt.kernel.bind import largest_workspace
from lenet_trt.kernel.dims import MULTIPROCESSORS, Constant, Dim, axes, size_of

n, w = axes("n w")
KERNEL = declared("split_softmax")
SPLIT, ROW = KERNEL.variants


def test_each_launch_is_a_variant_of_its_own() -> None:
    first, second = SPLIT.parts
    assert [KERNEL.entry(part) for part in SPLIT.parts] == ["split_softmax_split", "split_softmax_split_2"]
    assert [part.source for part in SPLIT.parts] == ["kernel.cu", "finish.cu"]
    assert first.parts == (first,)
    assert second.launch is SPLIT.then[0]
    assert ROW.parts == (ROW,)
    assert (SPLIT.is_one_launch, ROW.is_one_launch) == (False, True)
    named = replace(SPLIT, entry="mine", then=(replace(SPLIT.then[0], entry="other"),))
    assert [KERNEL.entry(part) for part in named.parts] == ["mine", "other"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"workspace": 0}, "a launch asks for workspace, and it declares none"),
        ({"launch": ROW.launch, "then": ()}, "no launch asks for its workspace"),
        ({"workspace": 8 * MULTIPROCESSORS}, "workspace uses multiprocessors, which is no axis"),
        ({"then": (replace(SPLIT.then[0], source="no.cu"),)}, r"there is no file .*no\.cu"),
        ({"then": (replace(SPLIT.then[0], block=(2048, 1, 1)),)}, "block has 2048 threads"),
        ({"then": (replace(SPLIT.then[0], extras=(axes("q")[0],)),)}, "launch uses q, which is no axis"),
    ],
)
def test_a_wrong_declaration_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(LenetTrtError, match=f"kernel split_softmax: variant split: {problem}"):
        replace(KERNEL, variants=(replace(SPLIT, **changes), ROW))


def test_a_launch_that_needs_more_shared_memory_than_there_is_takes_the_variant_away() -> None:
    large = replace(SPLIT, then=(replace(SPLIT.then[0], shared_bytes=70 * 1024),))
    assert not large.supports(75, KERNEL.types[0])
    assert large.supports(80, KERNEL.types[0])


def test_every_launch_compiles_and_the_hash_is_of_all_sources() -> None:
    specialized = KERNEL.specialize([(1, 1)], ["float32"])
    images = [compile_variant(specialized, part, "sm_75").image for part in SPLIT.parts]
    assert b"split_softmax_split_2" in images[1]
    assert b"split_softmax_split_2" not in images[0]
    assert source_sha256(KERNEL, SPLIT) != source_sha256(KERNEL, ROW)


def test_the_check_compiles_each_launch() -> None:
    (outcome,) = check_kernel(KERNEL, only=("compile",), targets=("sm_75",))
    assert (outcome.status, outcome.detail) == ("passed", "6 of 6 modules for sm_75")


def test_the_kernel_passes_what_needs_no_gpu() -> None:
    outcomes = check_kernel(KERNEL, only=("examples", "patterns", "serialize"))
    assert [outcome.failures for outcome in outcomes] == [(), (), ()]


def test_the_workspace_is_that_of_the_sizes() -> None:
    assert KERNEL.bind([(3, 2500)], ["float32"]).workspace_bytes(SPLIT) == 3 * 3 * 8
    assert KERNEL.bind([(3, 2500)], ["float32"]).workspace_bytes(ROW) == 0
    assert largest_workspace(KERNEL, [(7, 3000)], ["float16"], {}) == 7 * 3 * 8
    halves = replace(SPLIT, workspace=n * (w // size_of("T")))
    kernel = replace(KERNEL, variants=(halves, replace(SPLIT, name="other", types=("fp16",), workspace=999), ROW))
    assert largest_workspace(kernel, [(2, 100)], ["float32"], {}) == 50
    assert largest_workspace(kernel, [(2, 100)], ["float16"], {}) == 999


@given(EXPRESSIONS, SIZES, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_no_smaller_sizes_give_more_than_the_largest(
    dim: Dim, most: dict[str, int], a: float, b: float, c: float
) -> None:
    sizes = {name: int(size * share) for (name, size), share in zip(most.items(), (a, b, c), strict=True)}
    try:
        value = dim.evaluate(sizes)
    except LenetTrtError:
        return
    assert value <= dim.largest(most)


def test_the_largest_value_needs_the_size_of_each_axis() -> None:
    assert (n * 8 - w).largest({"n": 4, "w": 9}) == 32
    assert Constant(5).largest({}) == 5
    with pytest.raises(LenetTrtError, match=r"cannot bound n \* 8: axis n has no largest size"):
        (n * 8).largest({"w": 1})


def test_the_listing_says_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(registry.ENVIRONMENT, str(FOLDER))
    assert main(["plugins", "split_softmax"]) == 0
    assert "2 launches; workspace 8 * n * ceil_div(w, 1024) bytes)" in capsys.readouterr().out


def test_the_resources_of_each_launch_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(registry.ENVIRONMENT, str(FOLDER))
    assert main(["plugins", "split_softmax", "--resources", "8.6", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["variant"] for row in rows} == {"split", "split_2", "row"}


def test_one_launch_may_have_workspace_too() -> None:
    variant = Variant("v", Launch((n, 1, 1), (32, 1, 1), (w,), workspace=True), "", workspace=4 * n)
    assert not variant.is_one_launch
