"""What the graph runtime changes of torch's settings while it makes a shape ready, and that it is changed back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[gpu]'")

from lenet_trt.runtimes.graph.runtime import at_its_best  # noqa: E402


def settings() -> tuple[bool, ...]:
    cudnn = torch.backends.cudnn
    return cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    with torch.backends.cudnn.flags(enabled=True):
        yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("tf32", [False, True])
def test_the_callers_settings_are_back_after_it(timed: bool, deterministic: bool, tf32: bool) -> None:
    cudnn = torch.backends.cudnn
    cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32 = timed, deterministic, tf32
    before = settings()
    seen = []

    def fail() -> None:
        seen.append(settings())
        raise KeyError

    with pytest.raises(KeyError), at_its_best():
        fail()
    assert seen == [(True, not deterministic, deterministic, False)]
    assert settings() == before


def test_who_wants_the_same_bits_each_time_gets_no_timing() -> None:
    torch.use_deterministic_algorithms(True)
    with at_its_best():
        assert not torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(False)
    with at_its_best():
        assert torch.backends.cudnn.benchmark


def test_small_work_is_not_timed() -> None:
    with torch.backends.cudnn.flags(enabled=True, benchmark=True), at_its_best(timed=False):
        assert not torch.backends.cudnn.benchmark
