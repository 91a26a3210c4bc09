"""The benchmark's arithmetic, and that the committed page and picture are what the committed record makes."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from lenet_trt.errors import LenetTrtError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import results_page  # noqa: E402
from bench import page, record, sweep_svg  # noqa: E402

from lenet_trt.floors import Work  # noqa: E402

RECORD = ROOT / "docs" / "results" / "h200.json"


def test_the_work_of_a_call_is_what_its_declaration_says() -> None:
    pytest.importorskip("torch")
    from bench import ours, suites

    from lenet_trt.registry import kernel

    matvec = kernel("batched_matvec")
    work = ours.work_of(ours.bind(matvec, suites.MATMUL, ours.types_of(matvec, T="float32")))
    products = 600 * 200 * 8 * 64
    assert work == Work(4 * (products + 600 * 8 * 64), 4 * 600 * 200 * 8, 2 * products)


def test_input_sets_cover_twice_the_cache_where_that_is_possible() -> None:
    pytest.importorskip("torch")
    from bench.workload import MAX_SETS, SMALL_SETS, input_sets

    l2_bytes = 50 << 20
    for bytes_a_call in (3 << 20, 31 << 20, 1 << 30):
        count = input_sets(bytes_a_call, l2_bytes)
        assert count >= 2
        assert count <= MAX_SETS
        assert (count - 1) * bytes_a_call >= 2 * l2_bytes
    assert input_sets(3136, l2_bytes) == SMALL_SETS


def test_errors_are_relative_and_nothing_unwritten_passes() -> None:
    torch = pytest.importorskip("torch")
    from bench.workload import relative_error

    wanted = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert relative_error(torch.tensor([3.0, 4.5]), wanted) == pytest.approx(0.1)
    assert relative_error(torch.tensor([3.0, float("nan")]), wanted) == float("inf")
    assert relative_error(torch.tensor([3.0]), wanted) == float("inf")


def test_every_step_is_declared_with_arguments_that_exist() -> None:
    pytest.importorskip("torch")
    from bench.ladder_tables import LADDERS

    from lenet_trt.registry import kernel

    sources = set()
    for ladder in LADDERS:
        declared = kernel(ladder.kernel)
        tensors = {tensor.name for tensor in (*declared.inputs, *declared.outputs)}
        for step in ladder.steps:
            assert set(step.constants.values()) <= tensors
            for launch in step.launches:
                source = (declared.source_dir / launch.source).resolve()
                assert f"{launch.entry}(" in source.read_text()
                assert {a for a in launch.arguments if isinstance(a, str)} <= tensors | set(step.buffers)
                sources.add(source)
    assert sources == set((ROOT / "plugins").glob("*/steps/*.cu")), "a step is in no ladder"


def _row(name: str, us: float, ours: bool, **more: Any) -> dict[str, Any]:
    return {"name": name, "us": us, "p10_us": us, "p90_us": us, "timings": 96, "error": 1e-7, "ours": ours, **more}


def _workload(*rows: dict[str, Any], suite: str = "lenet5", n: int = 1) -> dict[str, Any]:
    return {
        "suite": suite,
        "name": f"net n={n}",
        "title": f"Net, n = {n}",
        "kernel": "net",
        "axes": {"n": n},
        "precision": "fp32",
        "floor_us": 4.0,
        "contenders": list(rows),
    }


def test_the_best_peer_is_the_fastest_that_ran_and_was_finite() -> None:
    workload = _workload(
        _row("product", 8, True, variant="tile"),
        _row("slow", 40, False),
        _row("fast", 16, False),
        {**_row("wrong", 1, False), "error": None},
        {"name": "broken", "ours": False, "failed": "RuntimeError: no"},
    )
    peer = record.best_peer(workload)
    assert peer is not None
    assert peer["name"] == "fast"
    assert [row["name"] for row in record.ordered(workload)] == ["product", "wrong", "fast", "slow", "broken"]
    assert record.gains([workload], "GPU") == [
        {"kernel": "net", "workload": "Net, n = 1", "us": 8, "peer": "fast", "peer_us": 16, "gpu": "GPU"}
    ]
    product = workload["contenders"][0]
    assert record.cells(workload, product) == ("8.00", "8.00 to 8.00", "1.0e-07", "2.00", "2.00")
    text = record.table([workload])
    assert "product (tile)" in text
    assert len({len(line) for line in text.splitlines() if not line.endswith("-")}) == 1, "columns are aligned"
    assert record.failures([workload]) == ["net n=1, broken: RuntimeError: no"]


def test_without_a_product_or_peer_there_is_no_gain() -> None:
    assert record.gains([_workload(_row("fast", 16, False))], "GPU") == []
    assert record.gains([_workload(_row("product", 8, True, variant="tile"))], "GPU") == []


def test_the_picture_has_a_line_a_contender_and_lower_is_faster() -> None:
    rows = [_row("product", 8, True, variant="tile"), _row("torch, CUDA graph", 80, False)]
    data = {
        "environment": {"gpu": "GPU"},
        "workloads": [_workload(*rows, suite="sweep", n=n) for n in (2, 16, 128)],
    }
    picture = sweep_svg.render(data)
    assert picture is not None
    dots = ET.fromstring(picture).findall(".//{http://www.w3.org/2000/svg}circle")
    heights = {style: [float(d.get("cy", "")) for d in dots if d.get("class") == style] for style in ("ours", "graph")}
    assert len(heights["ours"]) == len(heights["graph"]) == 3
    assert all(a > b for a, b in zip(heights["ours"], heights["graph"], strict=True))
    assert sweep_svg.render({**data, "workloads": []}) is None


@pytest.mark.parametrize(("content", "said"), [("{", "not JSON"), ("[]", "schema"), ('{"schema": 0}', "schema 0")])
def test_what_is_no_record_is_refused(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(content)
    with pytest.raises(LenetTrtError, match=said):
        record.load(path)


def test_the_committed_page_is_what_the_committed_record_makes() -> None:
    made = results_page.pages(RECORD)
    assert len(made) == 2
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"run `python scripts/results_page.py {RECORD}`"


def test_the_committed_record_is_complete() -> None:
    data = record.load(RECORD)
    text = page.render(data, RECORD.name)
    assert not data["interrupted"]
    for kernel in (
        "lenet5",
        "batched_matvec",
        "conv5x5_bias",
        "conv5x5_bias_relu_pool2",
        "dense_bias_relu",
        "maxpool2",
    ):
        assert any(row["kernel"] == kernel for row in data["rows"]), f"{kernel} was not measured"
    assert data["environment"]["gpu"] in text
    assert json.loads(RECORD.read_text())["rows"] == record.gains(data["workloads"], data["environment"]["gpu"])
    for workload in data["workloads"]:
        for row in record.timed(workload):
            assert row["p10_us"] <= row["us"] <= row["p90_us"]
            assert row["timings"] >= 50
            assert not row["ours"] or row["us"] >= 0.9 * workload["floor_us"], "faster than the floor: measure again"


@pytest.mark.parametrize(
    ("workload", "label"),
    [
        ("lenet5 fp32 n=1", "LeNet-5, one image, fp32"),
        ("lenet5 fp16 n=10000", "LeNet-5, 10,000 images, fp16"),
        ("matmul fp32", "MatMul (600,200,8,1,64) x (600,1,8,64,1), fp32"),
        ("conv5x5_bias_relu_pool2 fp32", "Conv 10000x1x28x28, 50 filters 5x5, ReLU, pool, fp32"),
    ],
)
def test_the_readmes_figures_are_those_of_the_record(workload: str, label: str) -> None:
    measured = next(entry for entry in record.load(RECORD)["workloads"] if entry["name"] == workload)
    ours, peer = record.product_of(measured), record.best_peer(measured)
    assert ours is not None
    assert peer is not None
    row = next(line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if f"| {label} |" in line)
    said = [float(cell.removesuffix(" us")) for cell in row.replace(" | ", "|").split("|") if cell.endswith(" us")]
    assert said == pytest.approx([ours["us"], peer["us"]], rel=0.01)
