// What the variants of softmax share: the exponential, and a part of a row as its largest value and its sum.
//
// A part (largest, sum) stands for exponentials relative to its own largest value: sum = sum of exp(x - largest). Parts are
// joined at the end, so no thread waits for the largest value of the whole row. A row with NaN or +infinity, and a row of
// nothing but -infinity, is NaN everywhere, as by the formula.
#pragma once

#include "rows.cuh"

namespace softmax {

using T = TYPE_T;
constexpr int kLength = AXIS_K;

// The largest of no values, -infinity: its exponential is 0.
__device__ __forceinline__ float nothing() { return __int_as_float(0xff800000); }

// exp(value) for value <= 0, to 2^-22; what is no normal number becomes 0.
__device__ __forceinline__ float exp_below(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value * 1.4426950408889634f));
  return result;
}

// What to subtract from the values of a part: where all are -infinity, their exponentials are 0 and not NaN.
__device__ __forceinline__ float reference_of(float largest) { return largest == nothing() ? 0.0f : largest; }

// Joins the parts (largest, sum) of one lane each, over kLanes lanes; returns (largest, sum) of all.
template <int kLanes>
__device__ __forceinline__ float2 join(float2 part) {
  const float largest = lanes_max<kLanes>(part.x);
  return make_float2(largest, lanes_sum<kLanes>(part.y * exp_below(part.x - reference_of(largest))));
}

// The factor that makes exp(x - reference_of(own)) the softmax, where the whole row is `all`.
__device__ __forceinline__ float factor_of(float own, float2 all) {
  return exp_below(reference_of(own) - reference_of(all.x)) / all.y;
}

}  // namespace softmax
