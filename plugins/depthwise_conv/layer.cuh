// The layer that a depthwise convolution is compiled for, and what it computes of a window.
#pragma once

#include "windows/activation.cuh"
#include "windows/windows.cuh"

using T = TYPE_T;
constexpr int kChannels = ATTR_GROUP;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
constexpr int kSize = ATTR_SIZE, kTaps = kSize * kSize;
using Layer = Windows<T, AXIS_H, AXIS_W, kSize, ATTR_STRIDE, ATTR_PAD>;

struct Convolution {
  static constexpr bool kOutsideIsZero = true;
  float taps[kSize][kSize], bias;

  __device__ __forceinline__ Convolution(const T* __restrict__ w, const T* __restrict__ all_bias, int channel)
      : bias(to_float(all_bias[channel])) {
#pragma unroll
    for (int i = 0; i < kTaps; ++i) taps[i / kSize][i % kSize] = to_float(w[channel * kTaps + i]);
  }

  __device__ __forceinline__ float first() const { return bias; }
  __device__ __forceinline__ float next(float sum, float x, int i, int j) const { return fmaf(x, taps[i][j], sum); }
  __device__ __forceinline__ float last(float sum, int, int) const { return activate<kActivation>(sum); }
};
