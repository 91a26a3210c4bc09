"""Tensor maps of a launch: what is refused, what a kernel compiles as, and what a launch passes."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lenet_trt.cuda import launch as launching
from lenet_trt.cuda import tensor_map
from lenet_trt.cuda.compile import compile_variant
from lenet_trt.cuda.driver import Context
from lenet_trt.cuda.launch import Launcher
from lenet_trt.cuda.tuning_file import declaration_sha256
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel import Kernel, TensorMap, Variant, registry
from lenet_trt.kernel.dims import axes

n, inputs, outputs, q = axes("n in out q")
KERNEL = registry.kernel("linear_half")
WIDE, DIRECT = KERNEL.variant("wide_wgmma"), KERNEL.variant("direct")
X = TensorMap("x", (n, inputs), (128, 64))


def with_map(declared: TensorMap, kernel: Kernel = KERNEL, variant: Variant = WIDE, **more: Any) -> Kernel:
    """Return the kernel with such a map in a variant."""
    mapped = replace(variant, launch=replace(variant.launch, maps=(declared,)), **more)
    return replace(kernel, variants=(mapped, DIRECT))


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (replace(X, tensor="y"), "a tensor map is of y, which is no input"),
        (replace(X, box=(64,)), "the tensor map of x has 2 axes, and its box 1"),
        (TensorMap("x", (n, 1, 1, 1, 1, inputs), (1, 1, 1, 1, 1, 64)), "has 6 axes; 1 to 5 are possible"),
        (replace(X, box=(257, 64)), "has a box of 257 along an axis; it has 1 to 256"),
        (replace(X, shape=(n, q)), "tensor map uses q, which is no axis"),
        (replace(X, box=(n, 64)), "the box of a tensor map is n, which is not compiled in"),
    ],
)
def test_a_wrong_declaration_is_refused(declared: TensorMap, problem: str) -> None:
    with pytest.raises(LenetTrtError, match=f"kernel linear_half: variant wide_wgmma: .*{problem}"):
        with_map(declared)


def test_where_there_are_no_tensor_maps_they_are_refused() -> None:
    with pytest.raises(LenetTrtError, match="which sm_90 is the first to have: min_sm=90"):
        with_map(X, min_sm=80, only_sm=False)
    with pytest.raises(LenetTrtError, match="alignment has to be a multiple of 16"):
        with_map(X, replace(KERNEL, alignment=8, variants=(DIRECT,)))
    with pytest.raises(LenetTrtError, match="it stays on the GPU, and has tensor maps of one call"):
        replace(KERNEL, resident=WIDE)


@pytest.mark.parametrize(
    ("box", "problem"),
    [
        ((128, inputs), r"linear_half wide_wgmma: .* boxes of \[128, 520\] elements; 1 to 256 are possible"),
        ((outputs, 64), r"boxes of \[264, 64\] elements; 1 to 256"),
        (
            (128, 20),
            r"boxes of \[128, 20\] elements, whose rows have 40 bytes of float16; they have to have 32, 64 or 128",
        ),
        ((128, 128), "whose rows have 256 bytes"),
    ],
)
def test_a_box_that_hardware_does_not_copy_is_refused_when_its_sizes_are_known(box: Any, problem: str) -> None:
    kernel = with_map(replace(X, box=box))
    specialized = kernel.specialize(
        [(-1, 520), *[(-1,) * len(t.shape) for t in kernel.inputs[1:-1]], (264,)], ["float16"] * 3
    )
    with pytest.raises(LenetTrtError, match=problem):
        specialized.maps(kernel.variants[0])


def test_sizes_of_a_call_that_hardware_does_not_copy_are_refused() -> None:
    kernel = with_map(TensorMap("x", (inputs, n), (128, 64)))
    (which,) = kernel.bind_axes({"n": 12, "in": 64, "out": 64}, kernel.types[0]).specialized.maps(kernel.variants[0])
    assert which.strides((64, 16)) == (32,)
    with pytest.raises(LenetTrtError, match=r"shape \[64, 12\], with 24 bytes between neighbours of an axis; .* 16"):
        which.sizes({"n": 12})
    with pytest.raises(LenetTrtError, match=r"shape \[64, 0\]; an axis has 1 to 2\^32"):
        which.sizes({"n": 0})


def test_the_source_compiles_with_maps_and_without() -> None:
    specialized = KERNEL.bind_axes(KERNEL.examples[0], KERNEL.types[0]).specialized
    variant = KERNEL.variant("wgmma")
    mapped, plain = (compile_variant(specialized, variant, "compute_90", maps=maps) for maps in (True, False))
    assert b"cp.async.bulk.tensor" in mapped.image
    assert b"cp.async.bulk.tensor" not in plain.image
    assert [option for option in mapped.options if "MAPS" in option] == ["--define-macro=LAUNCH_MAPS=1"]
    assert [option for option in plain.options if "MAPS" in option] == ["--define-macro=LAUNCH_MAPS=0"]
    direct = compile_variant(specialized, DIRECT, "sm_75").options
    assert direct == compile_variant(specialized, DIRECT, "sm_75", maps=False).options
    assert not any("MAPS" in option for option in direct)


def test_tuned_choices_are_for_the_maps_too() -> None:
    assert declaration_sha256(with_map(X)) != declaration_sha256(with_map(replace(X, box=(64, 64))))
    assert "maps" not in repr(DIRECT)


# ---- launches -------------------------------------------------------------------------------------------------------

NO_SUCH_VALUE = 1


class FakeDriver:
    """Make maps that say what they are of, and note the launches."""

    def __init__(self) -> None:
        self.encoded: list[tuple[Any, ...]] = []
        self.launched: list[tuple[int, ...]] = []
        self.status = 0
        self.CUresult = lambda status: SimpleNamespace(name=f"status {status}", __int__=lambda: status)

    def cuTensorMapEncodeTiled(self, to: Any, dtype: Any, rank: Any, address: Any, *rest: Any) -> int:  # noqa: N802
        assert to.value % 64 == 0
        sizes, strides, box, steps, *options = rest
        count = rank.value
        arrays = (sizes[:count], strides[: count - 1], box[:count], steps[:count])
        self.encoded.append((address.value, dtype.value, *arrays, *(option.value for option in options)))
        if not self.status:
            ctypes.c_uint64.from_address(to.value).value = address.value
        return self.status

    def cuLaunchKernel(self, *words: Any) -> tuple[int]:  # noqa: N802
        table, _ = words[-2:]
        x, weights, bias, rows, y, of_map = (ctypes.c_void_p * 6).from_address(table)
        pointers = [ctypes.c_uint64.from_address(each).value for each in (x, weights, bias, y, of_map)]
        self.launched.append((*pointers, ctypes.c_int32.from_address(rows).value))
        return (0,)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver()
    monkeypatch.setattr(launching, "driver", lambda: driver)
    monkeypatch.setattr(launching, "compile_for_launch", lambda *_: None)
    monkeypatch.setattr(launching, "load_function", lambda *_: 7)
    monkeypatch.setattr(tensor_map, "driver", lambda: driver)
    monkeypatch.setattr(tensor_map, "driver_library", lambda: driver)

    def ask(answer: Any, what: str) -> None:
        raise LenetTrtError(f"{what}: {answer[0].name}")

    monkeypatch.setattr(tensor_map, "ask", ask)
    return driver


def launcher(types: str = "fp16") -> Launcher:
    bound = KERNEL.bind_axes({"n": 300, "in": 320, "out": 264}, KERNEL.types_named(types))
    return Launcher(bound, WIDE, Context(key=1, device=0, sm=90, multiprocessors=132))


def test_a_launch_has_a_map_of_the_input_that_it_gets(fake: FakeDriver) -> None:
    launch = launcher()
    for x in (256, 256, 4096):
        launch((x, 512, 768, 1024), stream=0)
    assert fake.launched == [(x, 512, 768, 1024, x, 300) for x in (256, 256, 4096)]
    # The innermost axis is first; 128 bytes a row, swizzled over as many; zeros outside. A map is made where x moved.
    usual = (6, [320, 300], [640], [64, 128], [1, 1], 0, 3, 2, 0)
    assert fake.encoded == [(256, *usual), (4096, *usual)]


def test_each_launcher_has_maps_of_its_own(fake: FakeDriver) -> None:
    first, second = launcher(), launcher("bf16")
    for each, x in ((first, 256), (second, 4096), (first, 256)):
        each((x, 512, 768, 1024), stream=0)
    assert [launched[4] for launched in fake.launched] == [256, 4096, 256]
    assert [encoded[:2] for encoded in fake.encoded] == [(256, 6), (4096, 9)]


def test_a_map_that_the_driver_refuses_is_an_error_and_the_next_call_tries_again(fake: FakeDriver) -> None:
    launch = launcher()
    fake.status = NO_SUCH_VALUE
    with pytest.raises(LenetTrtError, match="cannot make a tensor map of x at 0x100: status 1"):
        launch((256, 512, 768, 1024), stream=0)
    assert not fake.launched
    fake.status = 0
    launch((256, 512, 768, 1024), stream=0)
    assert len(fake.launched) == 1


def test_an_old_driver_is_named(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_map, "driver_library", object)
    with pytest.raises(LenetTrtError, match=r"update it to one for CUDA 12\.0 \(525\) or newer"):
        launcher()


def test_a_map_beyond_its_input_is_refused(fake: FakeDriver) -> None:
    kernel = with_map(replace(X, shape=(n + 1, inputs)))
    bound = kernel.bind_axes({"n": 300, "in": 320, "out": 264}, kernel.types[0])
    with pytest.raises(LenetTrtError, match=r"the shape \[301, 320\], more elements than x"):
        Launcher(bound, kernel.variants[0], Context(key=1, device=0, sm=90, multiprocessors=132))
