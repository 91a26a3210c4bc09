"""The page made from a record: nothing is in it that is not in the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench import record
from bench.record import Data

IMAGE = "../images/lenet5_sweep.svg"
SECTIONS = {
    "lenet5": (
        "LeNet-5",
        "The whole network with its trained weights; images are float32, for the fp16 network as well. "
        "A timing is one replay of a CUDA graph.",
    ),
    "matmul": (
        "MatMul with a column",
        "The second operand is broadcast over the second dimension. Plain launches.",
    ),
    "conv": ("Convolution, 50 filters", "Plain launches."),
    "layers": ("LeNet-5's layers, each alone", "A timing is one replay of a CUDA graph."),
}
GRAPHED_TOO = ("matmul", "conv")

METHOD = """\
- All contenders of a workload take turns in one run: {rounds} turns of {warmup} untimed and {burst} timed calls, CUDA
  events around each. The tables say the median of these {timings} timings, and between which times eight tenths of them
  are.
- The GPU is kept busy until a turn is submitted, so the host's time is not in the numbers. "torch eager", and steps
  that wait after each launch, are the exception: there the stream is empty before each timing, and the host's time
  counts.
- Input sets, each with its output, rotate; where the data is large enough, all together are twice the L2 cache.
  Weights, and all data of small batches, are warm in L2.
- error: norm(result - exact) / norm(exact) on fresh random inputs, into poisoned outputs. exact is float64 from the
  float32 weights, so an fp16 contender's error includes the rounding of its weights.
- Peers: PyTorch without TF32, with `cudnn.benchmark`; `torch.compile` in mode `max-autotune-no-cudagraphs`, then
  captured in a CUDA graph where that is said. For layers and the sweep it compiles once for all batch sizes, in the
  default mode.
- product: the variant that the declaration picks. It is timed once more under its own name: the two differ by noise
  alone.
- floor: the larger of bytes over bandwidth and operations over arithmetic rate, each input read once and each output
  written once; for LeNet-5 and its layers plus the replay of an empty kernel. fp32 results may come from float
  multiply-adds or from three fp16 tensor-core products; the floor is the lower one. The rates, measured in the same
  run:
"""


def render(data: Data, record_name: str) -> str:
    """The page in Markdown."""
    return (
        "\n".join([*_head(data, record_name), *_summary(data), *_details(data), *_ladder(data), *_sweep(data)]) + "\n"
    )


def _head(data: Data, record_name: str) -> Iterator[str]:
    here, plan, peaks = data["environment"], data["plan"], data["ceilings"]
    packages = ", ".join(f"{name} {version}" for name, version in here["packages"].items())
    clocks = [w[when]["sm_mhz"] for w in data["workloads"] for when in ("clocks_before", "clocks_after")]
    yield f"# Measured on one {here['gpu']}"
    yield ""
    yield f"Made from [{record_name}]({record_name}) by `python scripts/results_page.py`; edit neither by hand."
    yield ""
    yield "```console"
    yield f"$ {data['command']}"
    yield "```"
    yield ""
    stopped = " The run was interrupted: workloads are missing." if data["interrupted"] else ""
    yield f"- {data['date']}, {_commit(data['commit'])}.{stopped}"
    if data.get("note"):
        yield f"- {data['note']}"
    yield (
        f"- {here['gpu']} (sm_{here['sm']}, {here['multiprocessors']} multiprocessors, "
        f"{here['l2_bytes'] / 2**20:.0f} MiB L2), driver {here['driver']} (CUDA {here['driver_cuda']}), "
        f"NVRTC {here['nvrtc']}, Python {here['python']}."
    )
    yield f"- {packages}."
    yield f"- SM clock, read before and after each workload and set by nobody: {_range(clocks)} MHz."
    yield ""
    yield "## How"
    yield ""
    yield from METHOD.format(**plan, timings=plan["rounds"] * plan["burst"]).splitlines()
    yield ""
    yield "| copy | read | fp32 matmul | fp16 matmul | empty kernel |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    yield (
        f"| {peaks['copy_bytes_per_s'] / 1e12:.2f} TB/s | {peaks['read_bytes_per_s'] / 1e12:.2f} TB/s "
        f"| {peaks['fp32_flop_per_s'] / 1e12:.1f} TFLOP/s | {peaks['fp16_flop_per_s'] / 1e12:.0f} TFLOP/s "
        f"| {peaks['launch_us']:.2f} us |"
    )
    yield ""


def _summary(data: Data) -> Iterator[str]:
    chosen = [w for w in data["workloads"] if w["suite"] in ("lenet5", "matmul", "conv")]
    if not chosen:
        return
    yield "## In short"
    yield ""
    yield "| workload | ours, us | floor, us | x floor | best peer | its us | faster | error |"
    yield "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |"
    for workload in chosen:
        ours, peer = record.product_of(workload), record.best_peer(workload)
        if ours is None or peer is None:
            continue
        yield (
            f"| {workload['title']} | {record.number(ours['us'])} | {record.number(workload['floor_us'])} "
            f"| {ours['us'] / workload['floor_us']:.2f} | {peer['name']} | {record.number(peer['us'])} "
            f"| {peer['us'] / ours['us']:.2f}x | {record.error_text(ours)} |"
        )
    yield ""


def _details(data: Data) -> Iterator[str]:
    for suite, (title, text) in SECTIONS.items():
        workloads = [w for w in data["workloads"] if w["suite"] == suite]
        if not workloads:
            continue
        graphs = suite in GRAPHED_TOO
        yield f"## {title}"
        yield ""
        yield text
        yield ""
        yield "| workload | contender | median us | p10 to p90 | error | x floor | best peer / it |" + (
            " in a graph, us |" if graphs else ""
        )
        yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |" + (" ---: |" if graphs else "")
        for workload in workloads:
            for index, row in enumerate(record.ordered(workload)):
                first = workload["title"] if index == 0 else ""
                cells = [first, record.display_name(row), *record.cells(workload, row)]
                yield "| " + " | ".join([*cells, _graph_us(row)] if graphs else cells) + " |"
        yield ""
        yield from _failures(workloads)


def _ladder(data: Data) -> Iterator[str]:
    workloads = [w for w in data["workloads"] if w["suite"] == "ladder"]
    if not workloads:
        return
    yield "## The ladder"
    yield ""
    yield (
        "The numbered versions in `plugins/*/steps`, one idea each, beside the variants of the product, in fp32. "
        "A timing is one replay of a CUDA graph of all of a step's launches."
    )
    yield ""
    yield "| workload | version | median us | p10 to p90 | error | x floor | first / it |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for workload in workloads:
        rows = record.ordered(workload)
        slowest = next((row for row in rows if "us" in row), None)
        for index, row in enumerate(rows):
            first = workload["title"] if index == 0 else ""
            times = record.cells(workload, row)[:-1]
            gain = f"{slowest['us'] / row['us']:.1f}" if slowest and "us" in row else "-"
            yield "| " + " | ".join([first, record.display_name(row), *times, gain]) + " |"
    yield ""
    yield from _failures(workloads)


def _sweep(data: Data) -> Iterator[str]:
    if not any(w["suite"] == "sweep" for w in data["workloads"]):
        return
    yield "## LeNet-5 over the batch size"
    yield ""
    yield f"![Time an image against the batch size, ours and peers, fp32 and fp16]({IMAGE})"
    yield ""
    yield "| workload | ours, us | variant | best peer, us | faster | x floor |"
    yield "| --- | ---: | --- | ---: | ---: | ---: |"
    workloads = [w for w in data["workloads"] if w["suite"] == "sweep"]
    for workload in workloads:
        ours, peer = record.product_of(workload), record.best_peer(workload)
        if ours is None or peer is None:
            continue
        yield (
            f"| {workload['title']} | {record.number(ours['us'])} | {ours['variant']} | {record.number(peer['us'])} "
            f"| {peer['us'] / ours['us']:.2f}x | {ours['us'] / workload['floor_us']:.2f} |"
        )
    yield ""
    yield from _failures(workloads)


def _failures(workloads: Sequence[Data]) -> Iterator[str]:
    failed = record.failures(workloads)
    if failed:
        yield "Without a time:"
        yield ""
        yield from (f"- {failure}" for failure in failed)
        yield ""


def _graph_us(row: Data) -> str:
    graph = row.get("also", {}).get("graph")
    return record.number(graph["us"]) if graph else "-"


def _commit(commit: str | None) -> str:
    return f"commit `{commit}`" if commit else "not in a git checkout"


def _range(values: Sequence[int]) -> str:
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"
