"""Launch what ``ncu`` counts: each backend and batch size once, warmed up, each after a kernel that marks it.

The suite ``occupancy`` runs it: ``ncu ... python -m lenet_trt.bench.occupancy_child --backends ... --batches ...``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

from lenet_trt.bench.occupancy_calls import BACKENDS, Maker, images
from lenet_trt.cuda.driver import Buffer, Stream, ask, current_context, driver
from lenet_trt.cuda.launch import prepare
from lenet_trt.cuda.tuned import variant_for
from lenet_trt.errors import LenetTrtError
from lenet_trt.kernel.registry import kernel

# No backend launches this kernel here; in ncu's list it separates one batch from the next.
MARK = "maxpool2"


def main(argv: list[str] | None = None) -> int:
    """Warm everything up, then launch all of it once where the profiler sees it."""
    parser = argparse.ArgumentParser(prog="python -m lenet_trt.bench.occupancy_child")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, required=True)
    parser.add_argument("--batches", nargs="+", type=int, required=True)
    arguments = parser.parse_args(argv)
    maker = Maker()
    mark = _marker(maker.stream)
    made = [maker.make(backend, images(batch, 1)) for backend in arguments.backends for batch in arguments.batches]
    for each in made:
        each.run()
    ask(driver().cuCtxSynchronize(), "the warm-up failed")
    ask(driver().cuProfilerStart(), "the profiler does not start")
    for each in made:
        mark()
        each.run()
    ask(driver().cuCtxSynchronize(), "the work failed")
    ask(driver().cuProfilerStop(), "the profiler does not stop")
    return 0


def _marker(stream: Stream) -> Callable[[], None]:
    declared = kernel(MARK)
    bound = declared.bind_axes(declared.examples[0], declared.types_named("fp32"))
    launcher = prepare(bound, variant_for(bound, current_context()))
    shapes = (*bound.input_shapes, *bound.output_shapes)
    buffers = [Buffer(4 * math.prod(shape)) for shape in shapes]
    pointers = [buffer.pointer for buffer in buffers]

    def mark(keep: object = buffers) -> None:
        launcher(pointers, stream.handle)

    return mark


if __name__ == "__main__":
    try:
        status = main()
    except LenetTrtError as error:
        print(error, file=sys.stderr)
        status = 1
    raise SystemExit(status)
