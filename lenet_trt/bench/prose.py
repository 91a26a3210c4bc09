"""What the page says around its tables: words that hold whatever the figures are."""

from __future__ import annotations

METHOD = """\
- All contenders of a comparison take turns in one run, so that whatever drifts hits all of them: {rounds} turns of
  up to {burst} timed calls each, fewer where a call is slow. Each round begins with another contender.
- Before that, each runs until the medians of two turns in a row agree; the record says after how many calls, and
  whether they ever did.
- A time is the median. The 95% interval is the bootstrap interval of that median; p10 to p90 holds eight tenths of
  the timings. Outliers are counted and left in: "slowest" is the worst of all.
- On the GPU, CUDA events stand around each call, and the GPU is kept busy until a turn is submitted, so that the
  host's time is not in the figure. Where the host's time belongs in it (what a caller waits, steps that wait after
  each launch, "eager"), the text says so.
- Input sets, each with its output, rotate; where the data is large enough, all together are twice the L2 cache.
  Weights, and all data of small batches, are warm in L2.
- error: norm(result - exact) / norm(exact), into outputs poisoned before; exact is float64 from the float32
  weights. right: the share of the 10,000 MNIST test images that get their own label.
- floor: the larger of bytes over bandwidth and operations over arithmetic rate, each input read once and each
  output written once, with the rates measured on this GPU; for LeNet-5 and its layers plus the replay of an empty
  kernel. fp32 results may come from float multiply-adds or from three fp16 tensor-core products; the floor is the
  lower one.
- `--compare OLD` calls a row changed when the intervals do not overlap and the medians are further apart than eight
  tenths of either's timings, and by more than 2%."""

# suite -> (heading, what its figures mean)
TEXTS = {
    "10k": (
        "10,000 images",
        """\
The first write-up classifies the 10,000 MNIST test images one by one: a launch for each layer of each image, and a
wait after each launch: the host must notice that a kernel is done before it may ask for the next, and the GPU has
one image at a time. One batch removes the waits; one CUDA graph removes the launches; one kernel removes the trips
of intermediate results to memory and back. The figures are what a caller waits, and all backends must give the
right answers.""",
    ),
    "sweep": (
        "Over the batch size",
        """\
Time an image against the batch, both axes logarithmic. At the left every curve falls as 1/n: the time is that of
launching, whatever the batch, and who launches least wins. At the right curves flatten: the time is that of the
work, and who moves the fewest bytes and computes with the fastest units wins. A hand-written kernel can win at one
end and lose at the other, as it did in the second write-up, where the framework overtook it at large batches. The
picture has the main backends in fp32, the table has all.""",
    ),
    "kernels": (
        "Every kernel beside its peers",
        """\
Each kernel as the declaration has it: "product" is the variant that is picked for the sizes, timed once more under
its own name (the two differ by noise alone). Peers are PyTorch without TF32, with `cudnn.benchmark`: as it is,
captured in a CUDA graph, and through `torch.compile`, whose templates are tried out for each size except for the
layers. mode: graph is one replay of a CUDA graph, launch a plain launch into a busy stream, eager counts the host's
time.""",
    ),
    "ladder": (
        "The ladder",
        """\
The numbered versions in `plugins/*/steps`, one idea each, from the loop on the CPU that the fifth write-up begins
with to the kernel that is used. gain is against the slowest row of the same workload, x floor what is still left to
gain. Every step is checked like the product: error against float64, and the MNIST test images where the batch is
all of them.""",
    ),
    "cold": (
        "The first inference",
        """\
The first answer of a fresh process takes far longer than later ones: the fourth write-up's riddle. Hardly any of it
is inference. Libraries are imported and find their code, the driver starts, a context is made, kernels are compiled
or found on disk and sent to the GPU, memory is reserved, a graph is recorded. Each phase is timed in processes of
its own, and each remedy by what it takes away.""",
    ),
    "occupancy": (
        "Why batch 1 idles",
        """\
A GPU is as fast as it is wide: a hundred multiprocessors, each with thousands of threads. One image is a few blocks
of work, so most multiprocessors have nothing to do, and those that have something wait for memory with nobody to
switch to. Throughput grows with the batch until every multiprocessor is full.""",
    ),
}
