// softmax of a row of any length by a block: its threads keep the largest value and the sum of what they saw, and read the row
// again to write it, from L2, as the rows in work are few.
#pragma once

#include "softmax/softmax.cuh"

namespace softmax {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kAhead = 4;  // packs on the way for each thread
using Packs = RowPacks<T, kLength, kThreads, kAhead>;

// value_of(packs, i, j) is the value of element j of pack i; -infinity where it lies outside of the row.
template <typename Value>
__device__ __forceinline__ void row_of_block(const T* __restrict__ x, T* __restrict__ y, Value value_of) {
  __shared__ float2 parts[kWarps];

  float2 part = make_float2(nothing(), 0.0f);
  for (int begin = threadIdx.x; begin < Packs::kPacks; begin += kAhead * kThreads) {
    const Packs packs(x, blockIdx.x, begin, nothing());
    float largest = part.x;
    float value[kAhead][Packs::kWide];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int j = 0; j < Packs::kWide; ++j) largest = max_nan(largest, value[i][j] = value_of(packs, i, j));
    }
    const float reference = reference_of(largest);
    part.y *= exp_approx(part.x - reference);
    part.x = largest;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int j = 0; j < Packs::kWide; ++j) part.y += exp_approx(value[i][j] - reference);
    }
  }
  part = join<32>(part);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = part;
  __syncthreads();
  const float2 all = join<kWarps>(parts[threadIdx.x % kWarps]);

  const float reference = reference_of(all.x), factor = factor_of(all.x, all);
  for (int begin = threadIdx.x; begin < Packs::kPacks; begin += kAhead * kThreads) {
    const Packs packs(x, blockIdx.x, begin, nothing());
    packs.store(y, [&](int i, int j) { return exp_approx(value_of(packs, i, j) - reference) * factor; });
  }
}

}  // namespace softmax
