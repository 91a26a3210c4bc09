// What can follow a convolution; a NaN stays NaN.
#pragma once

#include "common.cuh"

// In the order of ACTIVATIONS in activation.py.
enum class Activation { kNone, kRelu, kRelu6, kHardswish, kSilu, kGelu };

template <Activation kActivation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (kActivation == Activation::kRelu) {
    return relu_nan(x);
  } else if constexpr (kActivation == Activation::kRelu6) {
    return x != x ? x : fminf(fmaxf(x, 0.0f), 6.0f);
  } else if constexpr (kActivation == Activation::kHardswish) {
    return x * fminf(fmaxf(fmaf(x, 1.0f / 6.0f, 0.5f), 0.0f), 1.0f);
  } else if constexpr (kActivation == Activation::kSilu) {
    return __fdividef(x, 1.0f + __expf(-x));
  } else if constexpr (kActivation == Activation::kGelu) {
    constexpr float kRootOfHalf = 0.70710678f;
    return 0.5f * x * (1.0f + erff(x * kRootOfHalf));
  } else {
    return x;
  }
}
