// split_softmax: y = softmax of each row of x. Made to exercise several launches and workspace, not to be fast.
//
// x [n, w] -> y [n, w]. split: a block for each chunk of a row leaves the largest number and the sum in the workspace; the second
// launch (finish.cu) adds them and writes y. row: a block a row, in one launch.
#include "reduce.cuh"

ASSERT_LAUNCH(split_softmax_split, kThreads, 0);
ASSERT_LAUNCH(split_softmax_row, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    split_softmax_split(const T* __restrict__ x, int w, int chunks, T* __restrict__, Partial* __restrict__ partials) {
  const size_t row = blockIdx.x / chunks;
  const int first = blockIdx.x % chunks * kChunk;
  const Partial partial = partial_of(x + row * w + first, min(kChunk, w - first));
  if (threadIdx.x == 0) partials[blockIdx.x] = partial;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    split_softmax_row(const T* __restrict__ x, int w, T* __restrict__ y) {
  const size_t at = static_cast<size_t>(blockIdx.x) * w;
  write(x + at, w, partial_of(x + at, w), y + at);
}
