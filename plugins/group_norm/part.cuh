// The mean and the squared distances of some numbers, and of all that several threads have (Chan, Golub and LeVeque, 1979).
//
// A thread needs its own numbers alone, so a block, or a cluster, exchanges once; and no digits are lost where the mean is large, as in a sum of
// squares.
#pragma once

#include "rows.cuh"

namespace group_norm {

struct alignas(16) Part {
  float numbers, mean, squares;  // how many they are, their mean, the sum of the squared distances from it

  // The sum of the squared distances from another mean.
  __device__ __forceinline__ float from(float other) const { return fmaf(numbers * (mean - other), mean - other, squares); }
};

__device__ __forceinline__ float mean_of(float numbers, float sum) { return numbers > 0.0f ? sum / numbers : 0.0f; }

// Joins the parts that kLanes neighbouring lanes have; each gets the whole.
template <int kLanes, int kParts>
__device__ __forceinline__ Part joined(const Part (&parts)[kParts]) {
  float numbers = 0.0f, sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kParts; ++i) numbers += parts[i].numbers, sum = fmaf(parts[i].numbers, parts[i].mean, sum);
  numbers = lanes_sum<kLanes>(numbers);
  const float mean = mean_of(numbers, lanes_sum<kLanes>(sum));
#pragma unroll
  for (int i = 0; i < kParts; ++i) squares += parts[i].from(mean);
  return {numbers, mean, lanes_sum<kLanes>(squares)};
}

// 1 / standard deviation.
__device__ __forceinline__ float inverse_deviation(const Part& whole, float epsilon) { return rsqrtf(whole.squares / whole.numbers + epsilon); }

}  // namespace group_norm
