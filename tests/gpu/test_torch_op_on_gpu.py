"""The torch operators: eager, compiled, captured, and with tensors that are not as a kernel wants them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[gpu]'")

from declared_kernels import DECLARED, FOLDER  # noqa: E402
from lenet_trt.errors import LenetTrtError  # noqa: E402
from lenet_trt.kernel import registry  # noqa: E402
from lenet_trt.kernel.bind import Bound  # noqa: E402
from lenet_trt.kernel.examples import bounds, expected_outputs, kernel_inputs, plain_inputs, relative_error  # noqa: E402
from lenet_trt.runtimes.graph.torch_op import op  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")

NAMES = (*registry.kernels(), *DECLARED)


def on_gpu(array: np.ndarray) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


def prepared(bound: Bound) -> tuple[list[Any], list[np.ndarray]]:
    plain = plain_inputs(bound, np.random.default_rng(7))
    return [on_gpu(array) for array in kernel_inputs(bound, plain)], expected_outputs(bound, plain)


def assert_right(bound: Bound, outputs: Any, wanted: list[np.ndarray]) -> None:
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for output, expected, dtype in zip(outputs, wanted, bound.output_dtypes, strict=True):
        assert str(output.dtype) == f"torch.{dtype}"
        # bfloat16 is exact in float32; the tolerance includes its rounding.
        got = output.float().cpu().numpy() if dtype == "bfloat16" else output.cpu().numpy()
        assert relative_error(got, expected) <= bound.types.tolerance


def odd(name: str) -> Bound:
    """A call with the smallest odd batch beyond 1."""

    def batch(bound: Bound) -> int:
        return bound.axes[bound.kernel.axes[0].name]

    return min((bound for bound in bounds(registry.kernel(name)) if batch(bound) % 2 and batch(bound) > 1), key=batch)


@pytest.fixture(autouse=True)
def with_declared_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.ENVIRONMENT, str(FOLDER))


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_in_every_type(name: str) -> None:
    for bound in bounds(registry.kernel(name)):
        inputs, wanted = prepared(bound)
        assert_right(bound, op(name)(*inputs, **bound.attributes), wanted)


@pytest.mark.parametrize("name", NAMES)
def test_the_operator_keeps_the_rules_of_torch(name: str) -> None:
    bound = odd(name)
    inputs, _ = prepared(bound)
    torch.library.opcheck(op(name), tuple(inputs), dict(bound.attributes))


def test_calls_on_several_streams_have_each_their_own_workspace() -> None:
    softmax = op("split_softmax")
    inputs = [torch.randn(4, 300_000, device="cuda") for _ in range(4)]
    wanted = [torch.softmax(x.double(), dim=1) for x in inputs]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    results: list[Any] = [[] for _ in inputs]
    for _ in range(10):
        for x, stream, kept in zip(inputs, streams, results, strict=True):
            with torch.cuda.stream(stream):
                kept.append(softmax(x))
    torch.cuda.synchronize()
    for expected, kept in zip(wanted, results, strict=True):
        for seen in kept:
            torch.testing.assert_close(seen.double(), expected, rtol=1e-5, atol=1e-12)


def test_two_launches_and_their_workspace_replay_in_a_graph() -> None:
    softmax = op("split_softmax")
    x = torch.randn(3, 5000, device="cuda")
    softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = softmax(x)
    x.copy_(torch.randn(3, 5000, device="cuda"))
    graph.replay()
    torch.testing.assert_close(y, torch.softmax(x, dim=1), rtol=1e-5, atol=1e-9)


def test_inputs_that_are_not_dense_or_not_aligned() -> None:
    x = torch.randn(3, 8, 6, 10, device="cuda")
    call = op("maxpool2")
    wanted = torch.nn.functional.max_pool2d(x, 2)
    padded = torch.randn(3 * 8 * 6 * 10 + 1, device="cuda")
    shifted = padded[1:].view(3, 8, 6, 10)
    shifted.copy_(x)
    assert shifted.data_ptr() % 16 != 0
    last = x.to(memory_format=torch.channels_last)
    for given in (x, shifted, last, x.transpose(0, 1).contiguous().transpose(0, 1)):
        assert torch.equal(call(given), wanted)


def test_under_torch_compile_without_graph_breaks_and_for_several_batch_sizes() -> None:
    weight = torch.randn(84, 120, device="cuda")
    bias = torch.randn(84, device="cuda")
    op("dense_bias_relu")

    @torch.compile(fullgraph=True, dynamic=True)
    def network(x: Any) -> Any:
        return torch.ops.lenet_trt.dense_bias_relu(x * 2, weight, bias, relu=1) + 1

    for rows in (1, 7, 130, 3):
        x = torch.randn(rows, 120, device="cuda")
        wanted = torch.relu((x * 2).double() @ weight.double().T + bias.double()) + 1
        torch.testing.assert_close(network(x).double(), wanted, rtol=1e-5, atol=1e-4)


def test_in_a_cuda_graph_with_rotating_inputs() -> None:
    call = op("dense_bias_relu")
    x = torch.randn(33, 120, device="cuda")
    weight, bias = torch.randn(84, 120, device="cuda"), torch.randn(84, device="cuda")
    call(x, weight, bias)  # not needed for our sake: torch's allocator wants a warm-up
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call(x, weight, bias)
    for _ in range(3):
        x.normal_()
        graph.replay()
        torch.testing.assert_close(y.double(), x.double() @ weight.double().T + bias.double(), rtol=1e-5, atol=1e-4)


def test_on_the_stream_that_is_current() -> None:
    x = torch.zeros(64, 16, 128, 128, device="cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # about 10 ms: on another stream the pool would read zeros
        x.fill_(3.0)
        y = op("maxpool2")(x)
    stream.synchronize()
    assert bool((y == 3.0).all())


def test_an_empty_batch_gives_an_empty_result() -> None:
    y = op("dense_bias_relu")(
        torch.empty(0, 120, device="cuda"), torch.randn(84, 120, device="cuda"), torch.randn(84, device="cuda")
    )
    assert y.shape == (0, 84)


def test_what_cannot_work_is_refused() -> None:
    call = op("dense_bias_relu")
    weight, bias = torch.randn(84, 120, device="cuda"), torch.randn(84, device="cuda")
    with pytest.raises(LenetTrtError, match=r"w has shape \[84, 120\]; dense_bias_relu wants \[out, in\]: in is 120"):
        call(torch.randn(3, 119, device="cuda"), weight, bias)
    with pytest.raises(LenetTrtError, match="inputs of types float64, float32, float32"):
        call(torch.randn(3, 120, device="cuda").double(), weight, bias)
    with pytest.raises(LenetTrtError, match="bias is on cpu, not on cuda:0"):
        call(torch.randn(3, 120, device="cuda"), weight, bias.cpu())
    with pytest.raises(LenetTrtError, match="move them with"):
        call(torch.randn(3, 120), weight.cpu(), bias.cpu())
    with pytest.raises(LenetTrtError, match="x has 2214592512 elements; maxpool2 takes at most"):
        op("maxpool2")(torch.empty(2**20, 1, 64, 33, device="cuda", dtype=torch.float16))
