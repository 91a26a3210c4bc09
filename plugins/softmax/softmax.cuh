// What the variants of softmax share: a part of a row as its largest value and its sum.
//
// A part (largest, sum) stands for exponentials relative to its own largest value: sum = sum of exp(x - largest). Parts are
// joined at the end, so no thread waits for the largest value of the whole row. A row with NaN or +infinity, and a row of
// nothing but -infinity, is NaN everywhere, as by the formula.
#pragma once

#include "rows.cuh"
#include "softmax/largest.cuh"

namespace softmax {

using T = TYPE_T;
constexpr int kLength = AXIS_K;

// Joins the parts (largest, sum) of one lane each, over kLanes lanes; returns (largest, sum) of all.
template <int kLanes>
__device__ __forceinline__ float2 join(float2 part) {
  const float largest = lanes_max<kLanes>(part.x);
  return make_float2(largest, lanes_sum<kLanes>(part.y * exp_approx(part.x - reference_of(largest))));
}

// The factor that makes exp(x - reference_of(own)) the softmax, where the whole row is `all`.
__device__ __forceinline__ float factor_of(float own, float2 all) {
  return exp_approx(reference_of(own) - reference_of(all.x)) / all.y;
}

}  // namespace softmax
