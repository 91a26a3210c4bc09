"""The committed page and pictures are what the committed records make, and the README says what they say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lenet_trt.bench import page
from lenet_trt.bench.gains import gains, workloads
from lenet_trt.bench.record import Record, load_record
from lenet_trt.bench.suite import Options
from lenet_trt.bench.suites import SUITES
from lenet_trt.cuda.timing import TimingPlan
from lenet_trt.kernel.registry import kernels

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RECORDS = DOCS / "results" / "h200"
COMMAND = "python -m lenet_trt.bench.page docs/results/h200 -o docs/results.md --pictures docs/images"
MOST_BYTES = 1_500_000

pytestmark = pytest.mark.skipif(
    not RECORDS.is_dir(), reason=f"{RECORDS} has no records: lenet-trt bench all -o {RECORDS}"
)


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    return page.read(RECORDS)


def test_the_committed_page_is_what_the_committed_records_make(records: dict[str, Record]) -> None:
    made = page.page(records, list(page.pictures(records)), "docs/results/h200", COMMAND, "images")
    assert (DOCS / "results.md").read_text(encoding="utf-8") == made, f"run `{COMMAND}`"


def test_the_committed_pictures_say_what_the_records_say(records: dict[str, Record]) -> None:
    """By their texts: matplotlib draws the same a little differently in each release."""
    for name, content in page.pictures(records).items():
        committed = ET.parse(DOCS / "images" / name).getroot()
        made = ET.fromstring(content)
        assert committed.get("aria-label") == made.get("aria-label"), name
        assert _texts(committed) == _texts(made), f"{name}: run `{COMMAND}`"


def test_the_committed_records_are_whole(records: dict[str, Record]) -> None:
    assert set(records) == set(SUITES)
    for name, record in records.items():
        assert not record.interrupted, name
        assert "--quick" not in record.command, name
        assert record.timed, name
    plan = records["kernels"].plan
    assert plan["rounds"] * plan["burst"] == TimingPlan().timings == Options().plan.timings
    assert sum(path.stat().st_size for path in RECORDS.iterdir()) < MOST_BYTES


def test_no_kernel_beats_its_floor(records: dict[str, Record]) -> None:
    assert {row["kernel"] for row in gains(records["kernels"])} <= set(kernels())
    for workload in [w for name in ("kernels", "ladder") if name in records for w in workloads(records[name])]:
        for row in workload.rows:
            if row.stats is not None and row.extra.get("ours"):
                assert row.stats.median_us >= 0.9 * workload.floor_us, f"{row.key}: faster than the floor"


def test_every_answer_is_right(records: dict[str, Record]) -> None:
    for record in records.values():
        for row in record.timed:
            assert row.extra.get("accuracy", 0.9934) >= 0.99, row.key
            if row.extra.get("ours"):
                assert row.extra["error"] <= 2e-3, row.key


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
    measured = next(each for each in workloads(load_record(RECORDS / "kernels.json")) if each.name == workload)
    ours, peer = measured.product, measured.best_peer
    assert ours is not None
    assert ours.stats is not None
    assert peer is not None
    assert peer.stats is not None
    row = next(line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if f"| {label} |" in line)
    said = [float(number) for number in re.findall(r"\| ([\d.]+) us", row)]
    assert said == pytest.approx([ours.stats.median_us, peer.stats.median_us], rel=0.01)


@pytest.mark.parametrize("page", sorted((DOCS / "kernels").glob("*.md")), ids=lambda page: page.stem)
def test_the_steps_figures_are_those_of_the_record(page: Path, records: dict[str, Record]) -> None:
    """A row that begins with a step's number has its times, a workload a column; "waiting" is the eager row."""
    text = page.read_text(encoding="utf-8")
    said = {label: cells for line in text.splitlines() if (label := _step(line)) for cells in [line.split("|")[2:-1]]}
    measured: dict[str, list[float]] = {}
    for workload in workloads(records["ladder"]):
        for row in workload.rows if workload.facts["kernel"] == page.stem else ():
            if row.backend[0].isdigit() and row.stats is not None:
                label = row.backend.split(":")[0] + (" waiting" if row.case["mode"] == "eager" else "")
                measured.setdefault(label, []).append(row.stats.median_us)
    assert measured.keys() == said.keys()
    for label, medians in measured.items():
        numbers = [float(cell.split(" to ")[0].replace(",", "")) for cell in said[label]]
        assert numbers == pytest.approx(medians, rel=0.02), label


def _step(line: str) -> str | None:
    found = re.match(r"\| (\d)(, waiting)?\b", line)
    return None if found is None else found[1] + (" waiting" if found[2] else "")


def _texts(root: ET.Element) -> list[str]:
    return sorted("".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text"))
