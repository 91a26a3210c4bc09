"""What the GPU can do, measured in the same run as what is compared with it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from bench.workload import captured, hold
from lenet_trt.device import current_context
from lenet_trt.floors import Ceilings
from lenet_trt.timing import Plan, Timed, time_in_turns

BUFFER_BYTES = 4 << 30
MATRIX = 8192


def measure(stream: torch.cuda.Stream, plan: Plan) -> Ceilings:
    """Bandwidth of a copy and of reading, rates of large products of random matrices, the replay of an empty kernel."""
    with torch.cuda.stream(stream), torch.no_grad():
        source = torch.rand(BUFFER_BYTES // 4, device="cuda")
        target = torch.empty_like(source)
        a32, b32 = torch.randn(2, MATRIX, MATRIX, device="cuda").unbind()
        a16, b16 = a32.half(), b32.half()
        c32, c16 = torch.empty_like(a32), torch.empty_like(a16)
        empty = captured(lambda: _empty(source), stream)
        summaries = time_in_turns(
            {
                "copy": Timed([lambda: target.copy_(source)]),
                "read (sum)": Timed([lambda: source.sum()]),
                "read (max)": Timed([lambda: source.max()]),
                "fp32": Timed([lambda: torch.matmul(a32, b32, out=c32)]),
                "fp16": Timed([lambda: torch.matmul(a16, b16, out=c16)]),
            },
            stream.cuda_stream,
            hold,
            Plan(max(plan.rounds // 2, 1), 1, plan.burst),
        )
        launch = time_in_turns({"empty": Timed([empty])}, stream.cuda_stream, hold, plan)
    seconds = {name: summary.median_us * 1e-6 for name, summary in summaries.items()}
    flops = 2 * MATRIX**3
    copied = 2 * BUFFER_BYTES / seconds["copy"]
    context = current_context()
    return Ceilings(
        gpu=torch.cuda.get_device_name(),
        source="measured",
        read_bytes_per_s=BUFFER_BYTES / min(seconds["read (sum)"], seconds["read (max)"]),
        write_bytes_per_s=copied,
        copy_bytes_per_s=copied,
        flop_per_s={"fp32": flops / seconds["fp32"], "fp16": flops / seconds["fp16"]},
        launch_us=launch["empty"].median_us,
        sm=context.sm,
        multiprocessors=context.multiprocessors,
    )


def recorded(ceilings: Ceilings) -> Mapping[str, float]:
    """The ceilings as the records of this benchmark name them."""
    return {
        "copy_bytes_per_s": ceilings.copy_bytes_per_s,
        "read_bytes_per_s": ceilings.read_bytes_per_s,
        "fp32_flop_per_s": ceilings.flop_per_s["fp32"],
        "fp16_flop_per_s": ceilings.flop_per_s["fp16"],
        "launch_us": ceilings.launch_us,
    }


def _empty(result: torch.Tensor) -> torch.Tensor:
    """A kernel that waits for no cycles at all."""
    hold(0)
    return result
