// layer_norm of a row in the registers of a block: two sums over the block, the mean, then the squared distances from it; or one, of the
// squares, for a norm without mean.
#pragma once

#include "layer_norm/layer_norm.cuh"

namespace layer_norm {

template <int kThreads, typename Source, typename Residual, typename Norm>
__device__ __forceinline__ void row_in_registers(Source x, Residual residual, Norm norm, T* __restrict__ y) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float sums[2][kWarps];
  using Packs = RowPacks<T, kLength, kThreads>;
  Packs packs(x, blockIdx.x, threadIdx.x, 0.0f);
  if constexpr (Residual::kAdds) {
    const Packs other(residual.other, blockIdx.x, threadIdx.x, 0.0f);
#pragma unroll
    for (int i = 0; i < Packs::kEach; ++i) {
      if constexpr (Residual::kGates) {
        if (!packs.whole(i)) continue;
        const Pack16<T> gates = residual.gates.template of<Packs::kWide>(blockIdx.x, packs.first_of(i));
#pragma unroll
        for (int j = 0; j < Packs::kWide; ++j) {
          packs.pack[i].value[j] = added(packs.pack[i].value[j], other.pack[i].value[j], gates.value[j]);
        }
      } else {
#pragma unroll
        for (int j = 0; j < Packs::kWide; ++j) {
          packs.pack[i].value[j] = added(packs.pack[i].value[j], other.pack[i].value[j]);
        }
      }
    }
    packs.store(residual.sum, [&](int i, int j) { return packs.value(i, j); });
  }

  const auto block_sum = [&](float* warps, float sum) {
    sum = lanes_sum<32>(sum);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    return lanes_sum<kWarps>(warps[threadIdx.x % kWarps]);
  };
  float mean = 0.0f;
  if constexpr (Norm::kCentred) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < Packs::kEach; ++i) {
#pragma unroll
      for (int j = 0; j < Packs::kWide; ++j) sum += packs.value(i, j);
    }
    mean = block_sum(sums[0], sum) * (1.0f / kLength);
  }
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
        const Pack16<T> scales = load16(norm.scale + packs.first_of(i)), biases = norm.template biases<Packs::kWide>(packs.first_of(i));
        const auto value = [&](int j) { return normalized(packs.value(i, j), mean, inverse, scales.value[j], biases.value[j]); };
        Pack16<T> out;
        if constexpr (Norm::kModulates) {
          const Pack16<T> factors = norm.factors.template of<Packs::kWide>(blockIdx.x, packs.first_of(i));
          const Pack16<T> shifts = norm.shifts.template of<Packs::kWide>(blockIdx.x, packs.first_of(i));
#pragma unroll
          for (int j = 0; j < Packs::kWide; ++j) out.value[j] = from_float<T>(modulated(value(j), factors.value[j], shifts.value[j]));
        } else {
#pragma unroll
          for (int j = 0; j < Packs::kWide; ++j) out.value[j] = from_float<T>(value(j));
        }
        store_vector(y + packs.start + packs.first_of(i), out);
      }
    }
  } else {
    static_assert(!Norm::kModulates && !Residual::kGates, "rows are whole packs");
    packs.store(y, [&](int i, int j) {
      const int column = packs.column(i, j);
      return normalized(packs.value(i, j), mean, inverse, norm.scale[column], norm.template biases<1>(column).value[0]);
    });
  }
}

}  // namespace layer_norm
