// The second launch of split_softmax's variant split: a block for each chunk adds the row's partial results and writes y.
#include "reduce.cuh"

ASSERT_LAUNCH(split_softmax_split_2, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    split_softmax_split_2(const T* __restrict__ x, int w, int chunks, T* __restrict__ y,
                          const Partial* __restrict__ partials) {
  const size_t row = blockIdx.x / chunks;
  const int first = blockIdx.x % chunks * kChunk;
  Partial whole{minus_infinity(), 0.0f};
  for (int i = 0; i < chunks; ++i) whole.largest = max_nan(whole.largest, partials[row * chunks + i].largest);
  for (int i = 0; i < chunks; ++i) {
    const Partial part = partials[row * chunks + i];
    if (part.largest != minus_infinity()) whole.sum += part.sum * expf(part.largest - whole.largest);
  }
  write(x + row * w + first, min(kChunk, w - first), whole, y + row * w + first);
}
