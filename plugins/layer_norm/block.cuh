// layer_norm of a row of any length by a block, which reads it three times: for the mean, for the variance around it, and to
// write the result; the second and third time from L2, as the rows in work are few. A norm without mean reads it twice.
#pragma once

#include "layer_norm/layer_norm.cuh"

namespace layer_norm {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kAhead = 4;  // packs on the way for each thread
using Packs = RowPacks<T, kLength, kThreads, kAhead>;

// Adds add(value) over all elements of the row; every thread gets the sum. `sums` is used by one call alone.
template <typename Source, typename Add>
__device__ __forceinline__ float sum_of_row(Source x, float* sums, Add add) {
  float sum = 0.0f;
  for (int begin = threadIdx.x; begin < Packs::kPacks; begin += kAhead * kThreads) {
    const Packs packs(x, blockIdx.x, begin, 0.0f);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int j = 0; j < Packs::kWide; ++j) {
        if (packs.holds(i, j)) sum += add(packs.value(i, j));
      }
    }
  }
  sum = lanes_sum<32>(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  return lanes_sum<kWarps>(sums[threadIdx.x % kWarps]);
}

template <typename Source, typename Residual, typename Norm>
__device__ __forceinline__ void block_of_row(Source x, Residual residual, Norm norm, T* __restrict__ y) {
  __shared__ float sums[2][kWarps];
  if constexpr (Residual::kAdds) {
    for (int begin = threadIdx.x; begin < Packs::kPacks; begin += kAhead * kThreads) {
      const Packs packs(x, blockIdx.x, begin, 0.0f), other(residual.other, blockIdx.x, begin, 0.0f);
      if constexpr (Residual::kGates) {
        const auto gate = [&](int column) { return to_float(residual.gates.template of<1>(blockIdx.x, column).value[0]); };
        packs.store(residual.sum, [&](int i, int j) { return fmaf(gate(packs.column(i, j)), packs.value(i, j), other.value(i, j)); });
      } else {
        packs.store(residual.sum, [&](int i, int j) { return packs.value(i, j) + other.value(i, j); });
      }
    }
    x = residual.sum;  // a thread reads what it wrote itself
  }
  float mean = 0.0f;
  if constexpr (Norm::kCentred) mean = sum_of_row(x, sums[0], [](float value) { return value; }) * (1.0f / kLength);
  const float inverse = inverse_deviation(sum_of_row(x, sums[1], [&](float value) { return square(value - mean); }));
  for (int begin = threadIdx.x; begin < Packs::kPacks; begin += kAhead * kThreads) {
    const Packs packs(x, blockIdx.x, begin, 0.0f);
    packs.store(y, [&](int i, int j) {
      const int column = packs.column(i, j);
      const float value = normalized(packs.value(i, j), mean, inverse, norm.scale[column], norm.template biases<1>(column).value[0]);
      if constexpr (Norm::kModulates) {
        return modulated(value, norm.factors.template of<1>(blockIdx.x, column).value[0], norm.shifts.template of<1>(blockIdx.x, column).value[0]);
      } else {
        return value;
      }
    });
  }
}

}  // namespace layer_norm
