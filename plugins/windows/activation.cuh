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

// Where 16 bits round the result: one instruction of the special function units instead of two. They have an eighth of the rate of others. In
// x Phi(x) = max(x, 0) - |x| Phi(-|x|), Phi(-|x|) is 2^p(|x|) to 8e-5, a fifth of the last bit of fp16, or less exact where the product is below its
// normal numbers. Of infinities it is as above.
__device__ __forceinline__ float gelu_of_16_bits(float x) {
  const float size = fabsf(fminf(x, 30.0f));
  const float high = fmaf(fmaf(fmaf(-0.000320510512f, size, 0.00582731144f), size, -0.0482374906f), size, -0.464120212f);
  return fmaf(-size, exp2_approx(fmaf(fmaf(high, size, -1.14917656f), size, -1.0001206f)), relu_nan(x));
}

// The same as a number of type T.
template <Activation kActivation, typename T>
__device__ __forceinline__ T activated(float x) {
  if constexpr (sizeof(T) == 2 && kActivation == Activation::kGelu) {
    return from_float<T>(gelu_of_16_bits(x));
  } else {
    return from_float<T>(activate<kActivation>(x));
  }
}
