"""A builder that is kept between builds; that later builds start at once with it, only full TensorRT on a GPU shows."""

from __future__ import annotations

import signal
import weakref
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from lenet_trt.errors import LenetTrtError
from lenet_trt.export.lenet5 import SHIPPED
from lenet_trt.onnx_model.profiles import Profile
from lenet_trt.tensorrt import engine
from lenet_trt.tensorrt.engine import builder_kept, engine_from_onnx
from lenet_trt.tensorrt.flavors import installed, select

needs_rtx = pytest.mark.skipif(not installed()["rtx"], reason="TensorRT-RTX is not installed")


OLD_TENSORRT: Any = SimpleNamespace(product="TensorRT 8.6")


def test_ctrl_c_ends_a_single_build_at_once() -> None:
    usual = signal.getsignal(signal.SIGINT)
    with engine._without_monitor(OLD_TENSORRT, progress=False):
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == usual


def test_ctrl_c_among_several_builds_counts_after_the_build() -> None:
    """An exception in TensorRT's messages would be lost, so none is raised while it builds."""
    usual = signal.getsignal(signal.SIGINT)
    with builder_kept(), engine._without_monitor(OLD_TENSORRT, progress=False) as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
    assert signal.getsignal(signal.SIGINT) == usual


@needs_rtx
def test_the_first_builder_of_a_block_lives_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    flavor = select("rtx")
    make, made = flavor.trt.Builder, list[Any]()

    def builder(log: object) -> object:
        found = make(log)
        made.append(weakref.ref(found))
        return found

    def build() -> list[bool]:
        """Build LeNet-5; say of each builder whether it is there."""
        shape = (1, 1, 28, 28)
        profiles = {"images": Profile(shape, shape, shape)}
        engine_from_onnx(onnx.load(SHIPPED), flavor, profiles=profiles, targets=(86,))
        return [each() is not None for each in made]

    monkeypatch.setattr(flavor.trt, "Builder", builder)
    assert build() == [False]
    with builder_kept():
        build()
        with builder_kept():
            build()
        assert build() == [False, True, False, False]
    assert made[1]() is None
    assert build() == [False] * 5


@needs_rtx
def test_builds_in_a_block_share_one_logger_and_no_errors(capfd: pytest.CaptureFixture[str]) -> None:
    flavor, shape = select("rtx"), (1, 1, 28, 28)

    def build(sm: int) -> None:
        profiles = {"images": Profile(shape, shape, shape)}
        engine_from_onnx(onnx.load(SHIPPED), flavor, profiles=profiles, targets=(sm,))

    def refused() -> str:
        with pytest.raises(LenetTrtError, match="could not build this model") as error:
            build(75)
        return str(error.value)

    with builder_kept():
        build(86)
        first = refused()
        assert "FP32 GEMM is not supported" in first
        build(86)
        assert refused() == first
    assert "TensorRT warns" not in capfd.readouterr().err
