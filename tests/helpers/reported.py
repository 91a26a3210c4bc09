"""A traced LeNet-5 written by hand, for tests of the report: round times, hostile names where they are asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lenet_trt.report.content import Content
from lenet_trt.trace.timeline import HostRange, Timeline
from traced import CEILINGS, call, copy, kernel, node, repeated

# What names could do to a page: end its script, run code, turn the text around, break lines, fill the screen.
HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "\u202egnp.exe\u2066",
    "line one\nline two\r\x00\x1b[31m",
    "a" * 20_000,
    "\"'><svg onload=alert(1)>",
    "<!--<script>",
    "|`pipe`|*star*_under_[link](javascript:alert(1))",
    "\ud800 lone surrogate",
    "${x} {{x}} %s &amp; &#x3c;",
)
LAYERS = [
    ("/conv1/Conv", "Conv", "implicit_convolve_sgemm<float, float, 128, 5, 5>", 14.0, 2_000_000, 47_000_000),
    ("/relu1/Relu", "Relu", "vectorized_elementwise_kernel<4, relu>", 4.0, 1_500_000, 600_000),
    ("/pool1/MaxPool", "MaxPool", "max_pool_forward_nchw<float>", 5.0, 1_200_000, 600_000),
    ("/conv2/Conv", "Conv", "sm50_xmma_fprop_implicit_gemm_f32f32_tn_nn", 31.0, 1_000_000, 98_000_000),
    ("/fc1/Gemm", "Gemm", "cublasLt::splitKreduce_kernel<32, 16, float>", 12.0, 900_000, 31_000_000),
    ("/fc2/Gemm", "Gemm", "gemv2T_kernel_val<int, int, float>", 6.0, 200_000, 6_500_000),
]


def nodes(names: tuple[str, ...] = ()) -> list[Any]:
    """What the layers have to do."""
    made = [node(name, op, read=size, flops=flops) for name, op, _, _, size, flops in LAYERS]
    return [replace(entry, node=other) for entry, other in zip(made, names, strict=False)] + made[len(names) :]


def traced(count: int = 12, names: tuple[str, ...] = (), speed: float = 1.0, **more: Any) -> Timeline:
    """Inferences of six layers with a copy at each end; ``names`` replace names of nodes and of kernels."""
    happens: list[Any] = [call(1, 4, "cudaMemcpyAsync"), copy(7, 11, "HtoD", bytes=100_352, stream=7)]
    at = 13.0
    for number, (layer, _, name, us, _, _) in enumerate(LAYERS):
        other = names[number] if number < len(names) else None
        happens.append(call(5 + 4 * number, 8 + 4 * number, "cudaLaunchKernel"))
        happens.append(
            kernel(at, at + us * speed, other or layer, other or name, call=number + 1,
                   stream=7, grid=(64, 1, 1), block=(256, 1, 1), registers=48)
        )  # fmt: skip
        at += us * speed + 1.5
    happens += [call(32, 33, "cudaMemcpyAsync"), copy(at, at + 3, "DtoH", call=7, bytes=1_280, stream=7)]
    happens.append(call(34, at + 5, "cudaStreamSynchronize"))
    made = repeated(at + 6, happens, count, **{**_SAID, **more})
    ranges = []
    for one in made.iterations:
        for number, layer in enumerate(LAYERS):
            begin = one.start_us + 5 + 4 * number
            ranges.append(HostRange(names[number] if number < len(names) else layer[0], begin, begin + 4))
    ranges += [HostRange(names[0] if names else "inference", one.start_us, one.end_us) for one in made.iterations]
    return replace(made, ranges=tuple(ranges))


_SAID: dict[str, Any] = {
    "model": "models/lenet5.onnx",
    "runtime": "graph",
    "sizes": {"n": 32},
    "environment": {"gpu": CEILINGS.gpu, "driver": "580.1", "packages": {"torch": "2.11"}},
    "unprofiled_us": 98.0,
    "command": "lenet-trt profile models/lenet5.onnx -n 32",
    "notes": ("Written by hand.",),
}


def content(timeline: Timeline | None = None, names: tuple[str, ...] = (), before: Timeline | None = None) -> Content:
    """The report's content of such a run, with the ceilings that it was written for."""
    from lenet_trt.report.stage import run_of

    found = timeline or traced(names=names)
    work = nodes(names)
    return Content(
        run=run_of(found, "now.json", work, CEILINGS),
        nodes=tuple(work),
        ceilings=CEILINGS,
        before=None if before is None else run_of(before, "before.json", work, CEILINGS),
        commands=("lenet-trt profile models/lenet5.onnx -n 32", "lenet-trt report timeline.json"),
    )
