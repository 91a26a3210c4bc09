// What both variants of conv_int8 share: the layer's sizes, and what becomes of a sum.
#pragma once

#include "common.cuh"
#include "mma_int8.cuh"

namespace conv_int8 {

using namespace int8;

constexpr int kHeight = AXIS_H, kWidth = AXIS_W, kChannels = AXIS_C, kFilters = AXIS_K;
constexpr int kSize = ATTR_SIZE, kStride = ATTR_STRIDE, kPad = ATTR_PAD, kPool = ATTR_POOL;
constexpr int kOutHeight = ((kHeight + 2 * kPad - kSize) / kStride + 1) / kPool;
constexpr int kOutWidth = ((kWidth + 2 * kPad - kSize) / kStride + 1) / kPool;
constexpr int kOutPlane = kOutHeight * kOutWidth, kImageBytes = kChannels * kHeight * kWidth;
constexpr int kFilterBytes = kChannels * kSize * kSize;
constexpr int kLanes = 32, kThreads = 128, kWarps = kThreads / kLanes;

struct Scale {
  float factor, addend;
};
__device__ __forceinline__ Scale scale_of(int filter, const float* x_scale, const float* w_scale, const float* bias, const float* y_scale) {
  const int k = min(filter, kFilters - 1);
  const float step = __ldg(y_scale);
  return {__fdiv_rn(__fmul_rn(__ldg(x_scale), __ldg(w_scale + k)), step), __fdiv_rn(__ldg(bias + k), step)};
}

// The integer in the low byte: cut, then rounded by adding a number whose last bit is 1.
__device__ __forceinline__ unsigned requantized(float sum, const Scale& scale) {
  const float value = fmaf(sum, scale.factor, scale.addend);
  return __float_as_int(fminf(fmaxf(value, ATTR_RELU ? 0.0f : -128.0f), 127.0f) + kMagic);
}

}  // namespace conv_int8
