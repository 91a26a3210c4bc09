"""The torch operators where there is no GPU: schemas, fakes and what is refused (tests/gpu runs them)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'lenet-trt[export]'")

from declared_kernels import DECLARED, FOLDER  # noqa: E402
from lenet_trt.errors import LenetTrtError  # noqa: E402
from lenet_trt.kernel import registry  # noqa: E402
from lenet_trt.kernel.examples import bounds  # noqa: E402
from lenet_trt.runtimes.graph.torch_op import op  # noqa: E402


def test_the_schema_is_the_declaration() -> None:
    schema = str(op("conv5x5_bias")._schema)  # type: ignore[attr-defined]
    assert schema == ('lenet_trt::conv5x5_bias(Tensor x, Tensor w, Tensor bias, *, str activation="none") -> Tensor')
    assert op("conv5x5_bias") is op("conv5x5_bias")


def test_open_attributes_are_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.ENVIRONMENT, str(FOLDER))
    assert str(op("leaky_relu")._schema).startswith(  # type: ignore[attr-defined]
        "lenet_trt::leaky_relu(Tensor x, *, float alpha=0.01"
    )
    x = torch.empty(5, 9, device="meta")
    assert op("topk_values")(x).shape == (5, 2)
    assert op("topk_values")(x, k=7).shape == (5, 7)
    with pytest.raises(LenetTrtError, match="topk_values wants k <= w, and k = 10, w = 9"):
        op("topk_values")(x, k=10)
    with pytest.raises(LenetTrtError, match=r"leaky_relu: alpha is 1.5; it can be a finite number from .* to 1"):
        op("leaky_relu")(x, alpha=1.5)


@pytest.mark.parametrize("name", [*registry.kernels(), *DECLARED])
def test_fakes_have_the_declared_shapes_and_types(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.ENVIRONMENT, str(FOLDER))
    for bound in bounds(registry.kernel(name)):
        inputs = [
            torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
            for shape, dtype in zip(bound.input_shapes, bound.input_dtypes, strict=True)
        ]
        outputs = op(name)(*inputs, **bound.attributes)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        assert tuple(tuple(output.shape) for output in outputs) == bound.output_shapes
        assert tuple(str(output.dtype).removeprefix("torch.") for output in outputs) == bound.output_dtypes


def test_the_batch_stays_open_in_an_exported_program() -> None:
    call = op("dense_bias_relu")

    class Network(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
            return call(x, w, bias, relu=1)

    arguments = (torch.zeros(3, 120), torch.zeros(84, 120), torch.zeros(84))
    batch = torch.export.Dim("n")
    program = torch.export.export(Network(), arguments, dynamic_shapes=({0: batch}, None, None))
    (constraint,) = program.range_constraints.values()
    assert constraint.lower <= 1
    assert constraint.upper > 2**31


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(LenetTrtError, match="runs on CUDA tensors; these are on the CPU"):
        op("maxpool2")(torch.zeros(1, 1, 4, 4))
    with pytest.raises(LenetTrtError, match=r"x has shape \[1, 4, 4\]; maxpool2 wants \[n, c, h, w\]"):
        op("maxpool2")(torch.zeros(1, 4, 4, device="meta"))
    x, w, bias = (torch.zeros(shape, device="meta") for shape in ((1, 1, 8, 8), (2, 1, 5, 5), (2,)))
    with pytest.raises(LenetTrtError, match="activation is 'gelu'; it can be none, relu, tanh"):
        op("conv5x5_bias")(x, w, bias, activation="gelu")
    with pytest.raises(LenetTrtError, match="there is no kernel 'pool'"):
        op("pool")
