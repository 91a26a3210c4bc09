"""The kernels' suites, as far as they go without a GPU: what is computed, with which inputs, and that it is checked."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from lenet_trt.bench import ours  # noqa: E402
from lenet_trt.bench.layers import precisions_of, types_for  # noqa: E402
from lenet_trt.bench.workload import MAX_SETS, SMALL_SETS, _quality, input_sets, tensor_error  # noqa: E402
from lenet_trt.bench.workloads import BATCHES, Extent, layer_workloads_of, without_workloads  # noqa: E402
from lenet_trt.floors.floor import Work  # noqa: E402
from lenet_trt.kernel.examples import plain_inputs  # noqa: E402
from lenet_trt.kernel.registry import kernel, kernels, part  # noqa: E402
from lenet_trt.kernel.steps import steps_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def test_the_work_of_a_call_is_what_its_declaration_says() -> None:
    matvec = kernel("batched_matvec")
    axes = {"outer": 600, "broadcast": 200, "inner": 8, "rows": 1, "k": 64}
    work = ours.call_work(matvec.bind_axes(axes, ours.types_of(matvec, T="float32")))
    products = 600 * 200 * 8 * 64
    assert work == Work(4 * (products + 600 * 8 * 64), 4 * 600 * 200 * 8, 2 * products)


def test_input_sets_cover_twice_the_cache_where_that_is_possible() -> None:
    l2_bytes = 50 << 20
    for bytes_a_call in (3 << 20, 31 << 20, 1 << 30):
        count = input_sets(bytes_a_call, l2_bytes)
        assert 2 <= count <= MAX_SETS
        assert (count - 1) * bytes_a_call >= 2 * l2_bytes
    assert input_sets(3136, l2_bytes) == SMALL_SETS


def test_errors_are_relative_and_nothing_unwritten_passes() -> None:
    wanted = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert tensor_error(torch.tensor([3.0, 4.5]), wanted) == pytest.approx(0.1)
    assert tensor_error(torch.tensor([3.0, float("nan")]), wanted) == float("inf")
    assert tensor_error(torch.tensor([3.0]), wanted) == float("inf")


def test_a_result_is_poisoned_before_it_is_judged() -> None:
    wanted = torch.tensor([[3.0, 1.0], [2.0, 5.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0])
    kept = torch.empty(2, 2)

    def all_of_it() -> Any:
        kept.copy_(wanted)
        return kept

    def first_row_alone() -> Any:
        kept[0] = wanted[0]
        return kept

    assert _quality(all_of_it, wanted, labels) == {"error": 0.0, "accuracy": 0.5}
    assert _quality(all_of_it, wanted, None) == {"error": 0.0}
    assert _quality(first_row_alone, wanted, None) == {"error": None}


@pytest.mark.parametrize("name", sorted(kernels()))
def test_every_step_is_declared_with_arguments_that_exist(name: str) -> None:
    declared = kernel(name)
    folder = declared.source_dir / "steps"
    tensors = {tensor.name for tensor in (*declared.inputs, *declared.outputs)}
    sources = set()
    for step in steps_of(name):
        assert set(step.constants.values()) <= tensors
        for launch in step.launches:
            source = folder / launch.source
            assert f"{launch.entry}(" in source.read_text()
            assert {a for a in launch.arguments if isinstance(a, str)} <= tensors | set(step.buffers)
            sources.add(source)
    assert sources == set(folder.glob("*.cu")), "steps/__init__.py does not list every step"


@pytest.mark.parametrize("name", sorted(set(kernels()) - set(without_workloads())))
def test_layers_take_what_their_kernels_declare(name: str) -> None:
    declared = kernel(name)
    for layer in getattr(part(name, "workloads"), "LAYERS", ()):
        assert layer.kernel == name
        for precision in precisions_of(declared):
            bound = declared.bind_axes({"n": 3, **layer.axes}, types_for(declared, precision), layer.attributes)
            inputs = [torch.rand(array.shape) for array in plain_inputs(bound, np.random.default_rng(0))]
            assert tuple(layer.function(*inputs).shape) == tuple(bound.output_shapes[0]), layer.name


def test_a_kernel_that_nothing_is_timed_of_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "matmul_act_rowsum"
    shutil.copytree(ROOT / "tests" / "kernels" / name, tmp_path / name)
    monkeypatch.setenv("LENET_TRT_PLUGINS", str(tmp_path))
    assert name in without_workloads()
    (tmp_path / name / "workloads.py").write_text("def layers(extent):\n    yield extent.batches\n")
    assert name not in without_workloads()
    *_, last = layer_workloads_of(Extent(layer_batches=()))
    assert last == BATCHES
