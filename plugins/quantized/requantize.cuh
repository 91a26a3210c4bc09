// What a kernel between Q/DQ does with a sum of products of integers: multiply, add, cut, round half to even.
#pragma once

#include "mma_int8.cuh"

namespace int8 {

// What the sums of a row of w are multiplied by, and what is added.
struct Scale {
  float factor, addend;
};
__device__ __forceinline__ Scale scale_of(int row, int rows, const float* x_scale, const float* w_scale, const float* bias,
                                          const float* y_scale) {
  const int k = min(row, rows - 1);
  const float step = __ldg(y_scale);
  return {__fdiv_rn(__fmul_rn(__ldg(x_scale), __ldg(w_scale + k)), step), __fdiv_rn(__ldg(bias + k), step)};
}

// The integer in the low byte: cut, then rounded by adding a number whose last bit is 1.
__device__ __forceinline__ int requantized(float sum, const Scale& scale) {
  const float value = fmaf(sum, scale.factor, scale.addend);
  return __float_as_int(fminf(fmaxf(value, ATTR_RELU ? 0.0f : -128.0f), 127.0f) + kMagic);
}

}  // namespace int8
