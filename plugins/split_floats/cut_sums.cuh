// What tensor cores cut off: the bits of a sum that do not fit into a float are dropped there, not rounded. Where kProducts products follow
// each other on one sum, the sum is smaller than it should be, on average by kCut<kProducts> of it. That is less than the rounding of a
// float until there are many products, but it always has the same direction, and would add up through the layers of a network
// (docs/kernels/many_channel_conv.md). The part is measured on sm_90, with numbers of both signs; where all products have one sign it is larger.
// A sum of which nothing was cut, as of whole numbers, becomes too large by it: by 1e-6 for the most products here (few_channels).
#pragma once

#include "common.cuh"

template <int kProducts>
constexpr float kCut = (kProducts + 1) * (1.2f / 67108864.0f);  // 2^26

// A sum with what was cut off, on average.
template <int kProducts>
__device__ __forceinline__ float with_cut(float sum) {
  return fmaf(sum, kCut<kProducts>, sum);
}
