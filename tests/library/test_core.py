"""What the C++ library computes of a kernel: the same as Python, and refusals instead of crashes."""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from declared_kernels import DECLARED, declared
from expressions import EXPRESSIONS, SIZES
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import AttributeValue, IntegerAttribute, registry
from lenet_trt.kernel.bind import Bound, largest_workspace
from lenet_trt.kernel.choice import TunedChoice
from lenet_trt.kernel.declaration import Kernel
from lenet_trt.kernel.dims import Condition, Dim, as_dim, axes
from lenet_trt.kernel.variants import Variant
from lenet_trt.tensorrt.library.encode import TunedGpu, code_of, condition_code_of, word_count
from library_probes import CORE, SANITIZED, Core, compiled, data_of, hexadecimal, text_of

SMS = (75, 80, 86, 89, 90, 100, 120)
SHARED_KIB = {75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}  # as the GPUs have it
MULTIPROCESSORS = 132
GPU_SIZES = {"multiprocessors": MULTIPROCESSORS}
TARGETS = tuple(f"sm_{sm}" for sm in SMS)
KERNELS = (*registry.kernels(), *DECLARED)
AXES = ("n", "c", "h")
n, c, h = axes("n c h")
RELATIONS = (
    lambda a, b: a <= b,
    lambda a, b: a < b,
    lambda a, b: a.equals(b),
    lambda a, b: a.multiple_of(b),
    lambda a, b: a >= b,
)
# The C++ program outlives each example; what it is asked is all that an example changes.
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def evaluated(core: Core, code: bytes, sizes: dict[str, int], *, condition: bool) -> str:
    return core.ask("evaluate", int(condition), hexadecimal(code), *(sizes[name] for name in AXES))


@given(EXPRESSIONS, SIZES)
@SHARED
def test_an_expression_has_pythons_value_or_is_refused_as_there(core: Core, dim: Dim, sizes: dict[str, int]) -> None:
    answer = evaluated(core, code_of(dim, AXES), sizes, condition=False)
    try:
        wanted = dim.evaluate(sizes)
    except LenetTrtError:
        assert answer.startswith("error")
        return
    if abs(wanted) < 2**62:  # a step may have been larger than the result
        assert answer == f"value {wanted}" or "64 bits" in answer
    else:
        assert "64 bits" in answer or answer == f"value {wanted}"


@given(st.lists(st.tuples(EXPRESSIONS, st.integers(0, 4), EXPRESSIONS), min_size=1, max_size=4), SIZES)
@SHARED
def test_a_condition_holds_where_pythons_does(core: Core, parts: list[tuple[Dim, int, Dim]], sizes) -> None:
    conditions = [RELATIONS[which](left, right) for left, which, right in parts]
    whole: Condition = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    answer = evaluated(core, condition_code_of(whole, AXES), sizes, condition=True)
    try:
        wanted = whole.evaluate(sizes)
    except (LenetTrtError, ZeroDivisionError):
        assert answer.startswith("error")
        return
    assume("64 bits" not in answer)
    assert answer == f"value {int(wanted)}"


@given(EXPRESSIONS, SIZES)
@SHARED
def test_the_largest_value_is_pythons(core: Core, dim: Dim, sizes: dict[str, int]) -> None:
    answer = core.ask("largest", hexadecimal(code_of(dim, AXES)), *(sizes[name] for name in AXES))
    assert answer == f"value {dim.largest(sizes)}" or "64 bits" in answer


@pytest.mark.parametrize(
    "dim",
    [
        n * (2**62) * 4,
        n * 3_037_000_500 * 3_037_000_500,
        as_dim(-(2**62)) - n * 2**62 * 3,
        n * n * n * n * n * n * n * n,
    ],
)
def test_more_than_64_bits_is_refused(core: Core, dim: Dim) -> None:
    answer = evaluated(core, code_of(dim, AXES), {"n": 300, "c": 1, "h": 1}, condition=False)
    assert "64 bits" in answer


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (b"", "leaves 0 values"),
        (b"\x01\x00", "ends within a number"),
        (b"\x02\x03\x00", "names axis 3 of 3"),
        (b"\x02\x00\x00\x10", "no operands"),
        (b"\x02\x00\x00" * 65, "nested more than 64"),
        (b"\x02\x00\x00" * 2, "leaves 2 values"),
        (b"\x07", "unknown operator"),
        (b"\x02\x00\x00\x02\x00\x00\x20", "unknown operator"),
    ],
)
def test_code_that_is_not_well_formed_is_refused(core: Core, code: bytes, why: str) -> None:
    assert why in evaluated(core, code, {"n": 1, "c": 1, "h": 1}, condition=False)


@pytest.mark.parametrize("code", [b"\x30", b"\x02\x00\x00", b"\x02\x00\x00\x30", b"\x02\x00\x00\x02\x01\x00\x20\x30"])
def test_conditions_that_are_not_well_formed_are_refused(core: Core, code: bytes) -> None:
    assert "error" in evaluated(core, code, {"n": 1, "c": 1, "h": 1}, condition=True)


def bounds(kernel: Kernel, count: int) -> list[Bound]:
    """The declared examples in every type, and as many random sizes around them."""
    rng = np.random.default_rng(zlib.crc32(kernel.name.encode()))
    found = []
    for types in kernel.types:
        found += [kernel.bind_axes(example, types) for example in kernel.examples]
        for _ in range(count):
            example = dict(kernel.examples[rng.integers(len(kernel.examples))])
            for axis in kernel.axes:
                if not axis.static and rng.random() < 0.8:
                    example[axis.name] = int(np.exp(rng.uniform(0, np.log(3e5))))
                elif axis.static and rng.random() < 0.3:
                    example[axis.name] = int(rng.integers(1, 200))
            try:
                found.append(kernel.bind_axes(example, types, drawn(kernel, rng)))
            except LenetTrtError:  # sizes that the kernel says it is not for
                continue
    return found


def drawn(kernel: Kernel, rng: np.random.Generator) -> dict[str, AttributeValue]:
    """Values of the attributes: of open integers any in the range."""
    return {
        a.name: int(rng.integers(a.least, a.most + 1))
        if isinstance(a, IntegerAttribute)
        else a.examples[rng.integers(len(a.examples))]
        for a in kernel.attributes
    }


def gpu(sm: int) -> tuple[int, int, int]:
    """A GPU of that architecture, as the probe takes it."""
    return sm, MULTIPROCESSORS, 1024 * SHARED_KIB[sm]


def expected(bound: Bound, sm: int) -> str:
    """What Python would launch, in the words of the probe."""
    if bound.empty:
        return "nothing"
    try:
        bound.check_size()
        variant = bound.variant(sm, GPU_SIZES)
        workspace = bound.workspace_bytes(variant)
        launches = [launch_words(bound, part) for part in variant.parts]
    except LenetTrtError:
        return "error"
    end = f" bytes {workspace}" if workspace else ""
    return f"launch {variant.name} {' then '.join(launches)}{end}"


def launch_words(bound: Bound, part: Variant) -> str:
    """One launch in the words of the probe; raises where CUDA does not allow it."""
    launch = bound.specialized.launch(part)
    sizes = {**bound.axes, **GPU_SIZES}
    *grid, shared = (dim.evaluate(sizes) for dim in launch.dims[:4])
    extras = [dim.evaluate(sizes) for dim in launch.dims[4:]]
    limits = (2**31 - 1, 65535, 65535)
    if (
        not all(1 <= size <= limit for size, limit in zip(grid, limits, strict=True))
        or max(map(abs, extras), default=0) >= 2**31
    ):
        raise LenetTrtError("too large")
    maps = [f"map {','.join(map(str, each.sizes(sizes)))}" for each in bound.specialized.maps(part)]
    return " ".join(map(str, (*grid, shared, *extras, *["workspace"] * launch.workspace, *maps)))


@pytest.mark.parametrize("known", [False, True], ids=["open sizes", "known sizes"])
@pytest.mark.parametrize("name", KERNELS)
def test_shapes_choice_and_launch_are_pythons(core: Core, tmp_path: Path, name: str, known: bool) -> None:
    kernel = declared(name)
    seen, wanted_somewhere = set(), set()
    for bound in bounds(kernel, 12):
        wanted_somewhere |= {v.name for v in kernel.variants if bound.fits(v) and bound.prefers(v, GPU_SIZES)}
        data = tmp_path / "data"
        data.write_bytes(data_of(bound, TARGETS, (axis.name for axis in kernel.axes) if known else ()))
        assert core.ask("load", data) == f"ok {name} ({bound.types.name})"
        inputs, outputs = text_of(bound.input_shapes), text_of(bound.output_shapes)
        assert core.ask("shapes", inputs) == f"shapes {outputs}"
        most = largest_workspace(kernel, bound.input_shapes, bound.input_dtypes, bound.attributes)
        assert core.ask("workspace", inputs) == f"workspace {most}"
        for sm in SMS:
            answer = core.ask("plan", *gpu(sm), -1, inputs, "/", outputs)
            wanted = expected(bound, sm)
            assert answer == wanted or (wanted == "error" and answer.startswith("error")), (bound.axes, sm)
            seen.add(answer.split()[1])
    assert known or seen >= wanted_somewhere, "a variant that is never preferred is there to be tuned"


@pytest.mark.parametrize("name", KERNELS)
def test_each_variant_runs_where_it_can_in_place_of_the_chosen_one(core: Core, tmp_path: Path, name: str) -> None:
    kernel = declared(name)
    for bound in bounds(kernel, 5):
        data = tmp_path / "data"
        data.write_bytes(data_of(bound, ["sm_90"]))
        core.ask("load", data)
        # Those without an image for the target are not in the data, and number the others anew.
        variants = [v for v in kernel.variants if v.supports(90, bound.types) and bound_may_run(bound, v.when)]
        for index, variant in enumerate(variants):
            inputs, outputs = text_of(bound.input_shapes), text_of(bound.output_shapes)
            answer = core.ask("plan", *gpu(90), index, inputs, "/", outputs)
            if expected(bound, 90).startswith("launch"):
                wanted = variant if bound.fits(variant) else bound.variant(90, GPU_SIZES)
                assert answer.split()[1] == wanted.name or (answer.startswith("error") and variant is not wanted)


def bound_may_run(bound: Bound, when: Condition | None) -> bool:
    """Whether static sizes leave it possible."""
    from lenet_trt.tensorrt.library.sizes import KnownSizes

    return KnownSizes(bound.specialized.known_sizes, {}).decided(when) is not False


def lenet5(batch: int = 3) -> Bound:
    kernel = registry.kernel("lenet5")
    return kernel.bind_axes({"n": batch}, kernel.types_named("fp32"))


def shapes_of(bound: Bound) -> list[tuple[int, ...]]:
    return [*bound.input_shapes]


@pytest.mark.parametrize(
    ("which", "shape", "why"),
    [
        (0, (3, 1, 28, 27), "x has shape [3, 1, 28, 27]; lenet5 wants [n, 1, 28, 28]: 28 there, not 27"),
        (0, (3, 784), "x has shape [3, 784]; lenet5 wants [n, 1, 28, 28]: it has 2 dimensions"),
        (9, (84, 10), "fc3_weight has shape [84, 10]; lenet5 wants [10, 84]"),
        (0, (4, 1, 28, 28), "y has shape [3, 10]; lenet5 wants [n, 10]: 4 there, not 3"),
        (0, (-1, 1, 28, 28), "a size is not known"),
        (0, (2**31, 1, 28, 28), "3 there"),
    ],
)
def test_shapes_that_were_not_promised_are_refused_by_name(core: Core, tmp_path, which, shape, why) -> None:
    bound = lenet5()
    (tmp_path / "data").write_bytes(data_of(bound, ["sm_90"]))
    core.ask("load", tmp_path / "data")
    shapes = shapes_of(bound)
    shapes[which] = shape
    answer = core.ask("plan", *gpu(90), -1, text_of(shapes), "/", text_of(bound.output_shapes))
    assert answer.startswith("error")
    assert why.replace("3 there", "there") in answer


def test_a_size_that_was_known_when_it_was_encoded_is_checked_when_it_runs(core: Core, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(data_of(lenet5(3), ["sm_90"], known=["n"]))
    core.ask("load", tmp_path / "data")
    other = lenet5(4)
    answer = core.ask("plan", *gpu(90), -1, text_of(other.input_shapes), "/", text_of(other.output_shapes))
    assert answer.startswith("error x has shape [4, 1, 28, 28]")
    assert core.ask("shapes", text_of([(-1, 1, 28, 28), *other.input_shapes[1:]])) == "shapes 3,10"


def test_what_is_not_known_yet_is_not_wrong(core: Core, tmp_path: Path) -> None:
    bound = lenet5()
    (tmp_path / "data").write_bytes(data_of(bound, ["sm_90"]))
    core.ask("load", tmp_path / "data")
    weights = bound.input_shapes[1:]
    assert core.ask("check", text_of([(-1, -1, 28, -1), *weights])) == "fits"
    assert core.ask("check", text_of([(-1, 2, 28, -1), *weights])).startswith("error x has shape")
    assert core.ask("shapes", text_of([(-1, 1, 28, 28), *weights])) == "shapes -1,10"


def test_what_a_kernel_requires_is_checked_as_far_as_sizes_are_known(core: Core, tmp_path: Path) -> None:
    kernel = declared("average_pool3")
    bound = kernel.bind_axes({"n": 3, "c": 6, "h": 5, "w": 9}, kernel.types[0], {"pad": 0})
    (tmp_path / "data").write_bytes(data_of(bound, ["sm_90"]))
    core.ask("load", tmp_path / "data")
    refused = "error average_pool3 wants 3 <= h + 2 * pad & 3 <= w + 2 * pad"
    for h, w, answer in ((-1, -1, "fits"), (-1, 9, "fits"), (-1, 2, refused), (2, -1, refused), (2, 9, refused)):
        assert core.ask("check", text_of([(3, 6, h, w)])) == answer
    for h, w in ((2, 9), (5, 2)):
        assert core.ask("plan", *gpu(90), -1, text_of([(3, 6, h, w)]), "/", text_of([(3, 6, 1, 1)])) == refused


def test_an_empty_batch_launches_nothing(core: Core, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(data_of(lenet5(), ["sm_90"]))
    core.ask("load", tmp_path / "data")
    empty = lenet5(0)
    assert core.ask("plan", *gpu(90), -1, text_of(empty.input_shapes), "/", text_of(empty.output_shapes)) == "nothing"


def test_a_batch_beyond_what_the_kernel_indexes_is_refused(core: Core, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(data_of(lenet5(), ["sm_90"]))
    core.ask("load", tmp_path / "data")
    large = lenet5(3_000_000)
    answer = core.ask("plan", *gpu(90), -1, text_of(large.input_shapes), "/", text_of(large.output_shapes))
    assert "at most 2147483647 elements" in answer


def test_padding_counts_where_the_kernel_indexes(core: Core, tmp_path: Path) -> None:
    kernel = declared("abs_packed")
    for most, fits in ((3 * 35 * 32, True), (3 * 35 * 32 - 1, False)):
        bound = replace(kernel, max_elements=most).bind([(3, 20, 5, 7)], ["float16"])
        (tmp_path / "data").write_bytes(data_of(bound, ["sm_90"]))
        core.ask("load", tmp_path / "data")
        answer = core.ask("plan", *gpu(90), -1, "3,20,5,7", "/", "3,20,5,7")
        assert answer.startswith("launch" if fits else "error y has shape [3, 20, 5, 7]; abs_packed takes at most")


def test_a_gpu_takes_images_of_its_own_architecture_and_no_others(core: Core, tmp_path: Path) -> None:
    bound = lenet5(2)
    (tmp_path / "data").write_bytes(data_of(bound, ["sm_80", "sm_90", "compute_80"]))
    core.ask("load", tmp_path / "data")
    inputs, outputs = text_of(bound.input_shapes), text_of(bound.output_shapes)
    chosen = {sm: core.ask("plan", *gpu(sm), -1, inputs, "/", outputs).split()[1] for sm in (75, 80, 86, 90, 120)}
    assert chosen == {75: "lenet5", 80: "portable", 86: "portable", 90: "cluster8", 120: "portable"}


@pytest.mark.parametrize("size", [0, 1, 8, 63, 64, 200, 1000, -1])
def test_data_that_was_cut_is_refused(core: Core, tmp_path: Path, size: int) -> None:
    data = data_of(lenet5(), ["sm_90"])
    assert len(data) > 1000
    (tmp_path / "data").write_bytes(data[:size])
    assert core.ask("load", tmp_path / "data").startswith("error")


def test_damage_is_seen_everywhere(core: Core, tmp_path: Path) -> None:
    data = data_of(lenet5(), ["sm_90"])
    for at in range(0, len(data.rstrip(b"\0")), 7):
        (tmp_path / "data").write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        assert core.ask("load", tmp_path / "data").startswith("error"), at


def test_a_newer_format_says_what_to_do(core: Core, tmp_path: Path) -> None:
    data = data_of(lenet5(), ["sm_90"])
    (tmp_path / "data").write_bytes(data[:8] + b"\x02" + data[9:])
    assert core.ask("load", tmp_path / "data") == (
        "error the kernel's data has version 2; this library reads version 1: use a newer plugin library"
    )


@pytest.mark.slow
def test_mutations_are_refused_or_used_and_never_crash(tmp_path: Path) -> None:
    program = compiled("core_probe", tmp_path / "core_probe", *SANITIZED, sources=CORE)
    core = Core(program)
    count = int(os.environ.get("LENET_TRT_MUTATIONS", "6000"))
    kernels = ("conv5x5_bias_relu_pool2", "batched_matvec", "lenet5", "maxpool2", "linear_half", *DECLARED)
    for seed, name in enumerate(kernels):
        kernel = declared(name)
        bound = kernel.bind_axes(kernel.examples[1], kernel.types[0])
        free = next(axis.name for axis in kernel.axes if not axis.static)
        choice = TunedChoice(bound.types.name, {}, {}, free, 1, 9, kernel.variants[-1].name)
        tuned = [TunedGpu("NVIDIA H200", 90, 132, (choice,))]
        (tmp_path / "data").write_bytes(data_of(bound, ["sm_90"], tuned=tuned))
        core.ask("load", tmp_path / "data")
        answer = core.ask("fuzz", count // len(kernels), seed)
        found = re.fullmatch(r"fuzzed (\d+) (\d+) (\d+)", answer)
        assert found is not None
        assert int(found[2]) > int(found[1]) // 20, "too few are accepted to reach what follows the reading"
        assert int(found[3]) > 0
    core.close()


@pytest.mark.parametrize("name", ["lenet5_int8", "conv_int8", "dense_int8"])
def test_weights_of_8_bits_are_wanted_as_words(core: Core, tmp_path: Path, name: str) -> None:
    """A plan has the variant and the launch of the true sizes, which the words do not tell."""
    kernel = registry.kernel(name)
    bound = kernel.bind_axes(kernel.examples[1], kernel.types[0])
    inputs = zip(kernel.inputs, bound.input_shapes, bound.input_dtypes, strict=True)
    narrow = {tensor.name: shape for tensor, shape, dtype in inputs if tensor.weight and dtype == "int8"}
    assert narrow
    plans = []
    for words in (frozenset(), frozenset(narrow)):
        named = zip(kernel.inputs, bound.input_shapes, strict=True)
        shapes = [(word_count(shape),) if each.name in words else shape for each, shape in named]
        (tmp_path / "data").write_bytes(data_of(bound, ["sm_90"], words=words))
        core.ask("load", tmp_path / "data")
        plans.append(core.ask("plan", *gpu(90), -1, text_of(shapes), "/", text_of(bound.output_shapes)))
        if words:
            answer = core.ask("plan", *gpu(90), -1, text_of(bound.input_shapes), "/", text_of(bound.output_shapes))
            assert answer.startswith("error")
    assert plans[0] == plans[1]
    assert not plans[0].startswith("error")
