// layer_norm (see kernel.cu) with a block a row: for rows of more than a thousand elements.
//
// x [rows, K], scale [K], bias [K] -> y [rows, K].
//
// Mapping: one block a row, of as many threads as the variant declares; they hold the row in registers. Two sums over the
// block: the mean, then the squared distances from it.
// Bytes: x and y once; scale and bias from L2.
#include "layer_norm/layer_norm.cuh"

namespace layer_norm {

template <int kThreads>
__device__ __forceinline__ void row_in_registers(const T* __restrict__ x, const T* __restrict__ scale,
                                                 const T* __restrict__ bias, T* __restrict__ y) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float sums[2][kWarps];
  using Packs = RowPacks<T, kLength, kThreads>;
  const Packs packs(x, blockIdx.x, threadIdx.x, 0.0f);

  const auto block_sum = [&](float* warps, float sum) {
    sum = lanes_sum<32>(sum);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    return lanes_sum<kWarps>(warps[threadIdx.x % kWarps]);
  };
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < Packs::kEach; ++i) {
#pragma unroll
    for (int j = 0; j < Packs::kWide; ++j) sum += packs.value(i, j);
  }
  const float mean = block_sum(sums[0], sum) * (1.0f / kLength);
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < Packs::kEach; ++i) {
#pragma unroll
    for (int j = 0; j < Packs::kWide; ++j) squares += packs.holds(i, j) ? square(packs.value(i, j) - mean) : 0.0f;
  }
  const float inverse = inverse_deviation(block_sum(sums[1], squares));

  if constexpr (Packs::kWhole) {
#pragma unroll
    for (int i = 0; i < Packs::kEach; ++i) {
      if (packs.whole(i)) {
        const Pack16<T> scales = load16(scale + packs.first_of(i)), biases = load16(bias + packs.first_of(i));
        Pack16<T> out;
#pragma unroll
        for (int j = 0; j < Packs::kWide; ++j) {
          out.value[j] = from_float<T>(normalized(packs.value(i, j), mean, inverse, scales.value[j], biases.value[j]));
        }
        store_vector(y + packs.start + packs.first_of(i), out);
      }
    }
  } else {
    packs.store(y, [&](int i, int j) {
      const int column = packs.column(i, j);
      return normalized(packs.value(i, j), mean, inverse, scale[column], bias[column]);
    });
  }
}

}  // namespace layer_norm

using layer_norm::T;
ASSERT_LAUNCH(layer_norm_row, LAUNCH_THREADS, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    layer_norm_row(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, int rows,
                   T* __restrict__ y) {
  layer_norm::row_in_registers<LAUNCH_THREADS>(x, scale, bias, y);
}
