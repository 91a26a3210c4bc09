// What dense_int8 does with a sum of products of integers: multiply, add, cut, round half to even.
#pragma once

#include "common.cuh"
#include "mma_int8.cuh"

namespace dense_int8 {

constexpr int kIn = AXIS_IN, kOut = AXIS_OUT;

// What a sum is multiplied by, and what is added.
struct Scale {
  float factor, addend;
};
__device__ __forceinline__ Scale scale_of(int output, const float* x_scale, const float* w_scale, const float* bias, const float* y_scale) {
  const int o = min(output, kOut - 1);
  const float step = __ldg(y_scale);
  return {__fdiv_rn(__fmul_rn(__ldg(x_scale), __ldg(w_scale + o)), step), __fdiv_rn(__ldg(bias + o), step)};
}

// The integer in the low byte: cut, then rounded by adding a number whose last bit is 1.
__device__ __forceinline__ int requantized(int sum, const Scale& scale) {
  const float value = fmaf(static_cast<float>(sum), scale.factor, scale.addend);
  return __float_as_int(fminf(fmaxf(value, ATTR_RELU ? 0.0f : -128.0f), 127.0f) + int8::kMagic);
}

}  // namespace dense_int8
