// Dense layers in fp16 or bfloat16 by plain multiply-adds: a thread computes 8 neighbouring outputs of a row. Their own `Layer` is included before.
#pragma once

#include "linear_half/plain.cuh"

constexpr int kDirectThreads = 128;

__device__ __forceinline__ void dense_direct(const Layer& layer) {
  constexpr int kEights = kOutputs / kEight;
  const int unit = blockIdx.x * kDirectThreads + threadIdx.x, row = unit / kEights, first = unit % kEights * kEight;
  if (row >= layer.n) return;
  const T* const of_x = layer.row(row);
  float sums[kEight] = {};
  plain_sums(sums, layer.weights, first, [&](int input) { return load_vector<kEight>(of_x + input); });
  layer.finish(sums, 0, row, first);
}

#define ENTRY_DIRECT(entry)                                                                                                                    \
  ASSERT_LAUNCH(entry, kDirectThreads, 0);                                                                                                     \
  extern "C" __global__ void __launch_bounds__(kDirectThreads)                                                                                 \
      entry(const T* __restrict__ x OTHER_PARAMETER, const T* __restrict__ weights, const T* __restrict__ bias, int rows TOKENS_PARAMETER, T* __restrict__ y) { \
    wait_for_previous_kernel();                                                                                                                \
    dense_direct(Layer{{x, weights, bias, rows, y OTHER_ARGUMENT}});                                                                           \
  }
