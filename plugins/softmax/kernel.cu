// softmax: y = exp(x - max) / sum of exp(x - max), over each row; any length, any architecture.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: a block a row. Threads read 16-byte packs, keep the largest value and the sum of what they saw, and read the row
// again to write it: from L2, as the rows in work are few. The other variants keep the row in registers or shared memory.
//
// Bytes: x and y once from DRAM, x once more from L2.
// What was measured: docs/kernels/softmax.md.
#include "softmax/softmax.cuh"

namespace softmax {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kAhead = 4;  // packs on the way for each thread
using Packs = RowPacks<T, kLength, kThreads, kAhead>;

}  // namespace softmax

using softmax::T;
ASSERT_LAUNCH(softmax_block, softmax::kThreads, 0);

extern "C" __global__ void __launch_bounds__(softmax::kThreads)
    softmax_block(const T* __restrict__ x, int rows, T* __restrict__ y) {
  using namespace softmax;
  __shared__ float2 parts[kWarps];

  float2 part = make_float2(nothing(), 0.0f);
  for (int begin = threadIdx.x; begin < Packs::kPacks; begin += kAhead * kThreads) {
    const Packs packs(x, blockIdx.x, begin, nothing());
    float largest = part.x;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int j = 0; j < Packs::kWide; ++j) largest = max_nan(largest, packs.value(i, j));
    }
    const float reference = reference_of(largest);
    part.y *= exp_below(part.x - reference);
    part.x = largest;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int j = 0; j < Packs::kWide; ++j) part.y += exp_below(packs.value(i, j) - reference);
    }
  }
  part = join<32>(part);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = part;
  __syncthreads();
  const float2 all = join<kWarps>(parts[threadIdx.x % kWarps]);

  const float reference = reference_of(all.x), factor = factor_of(all.x, all);
  for (int begin = threadIdx.x; begin < Packs::kPacks; begin += kAhead * kThreads) {
    const Packs packs(x, blockIdx.x, begin, nothing());
    packs.store(y, [&](int i, int j) { return exp_below(packs.value(i, j) - reference) * factor; });
  }
}
