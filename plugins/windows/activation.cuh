// What can follow a layer; a NaN stays NaN.
#pragma once

#include "common.cuh"

// In the order of ACTIVATIONS in activation.py.
enum class Activation { kNone, kRelu, kRelu6, kHardswish, kSilu, kGelu, kGeluTanh, kQuickGelu };

// x (1 + erf(x / sqrt 2)) / 2 = max(x, 0) - |x| erfc(|x| / sqrt 2) / 2, to 6e-7, without a branch. Of infinity it is infinity, of its negative
// NaN. Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26, for erfc; the constants have both divisions in them.
__device__ __forceinline__ float gelu(float x) {
  const float size = fabsf(fminf(x, 30.0f)), t = reciprocal_approx(fmaf(size, 0.3275911f * 0.70710678f, 1.0f));
  const float sum = fmaf(fmaf(fmaf(fmaf(0.5307027145f, t, -0.7265760135f), t, 0.7107068705f), t, -0.142248368f), t, 0.127414796f);
  const float exponential = exp2_approx(size * size * (-0.5f * kLog2E));
  return fmaf(-size, t * sum * exponential, relu_nan(x));
}

template <Activation kActivation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (kActivation == Activation::kRelu) {
    return relu_nan(x);
  } else if constexpr (kActivation == Activation::kRelu6) {
    return x != x ? x : fminf(fmaxf(x, 0.0f), 6.0f);
  } else if constexpr (kActivation == Activation::kHardswish) {
    return x * fminf(fmaxf(fmaf(x, 1.0f / 6.0f, 0.5f), 0.0f), 1.0f);
  } else if constexpr (kActivation == Activation::kSilu) {
    return x * sigmoid(x);
  } else if constexpr (kActivation == Activation::kGelu) {
    return gelu(x);
  } else if constexpr (kActivation == Activation::kGeluTanh) {
    // x (1 + tanh u) / 2 = x sigmoid(2 u), with u = sqrt(2 / pi) (x + 0.044715 x^3)
    return x * sigmoid(x * fmaf(x * x, 0.0713548163f, 1.5957691216f));
  } else if constexpr (kActivation == Activation::kQuickGelu) {
    return x * sigmoid(1.702f * x);
  } else {
    return x;
  }
}
