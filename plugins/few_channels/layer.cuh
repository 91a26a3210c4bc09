// The layer that a convolution of few channels or filters is compiled for, and one output of it by plain multiply-adds.
#pragma once

#include "windows/activation.cuh"
#include "windows/windows.cuh"

using T = TYPE_T;
using Layer = Windows<T, AXIS_H, AXIS_W, ATTR_SIZE, ATTR_STRIDE, ATTR_PAD>;
constexpr int kChannels = AXIS_C, kFilters = AXIS_K, kSize = Layer::kSize, kTaps = kSize * kSize, kStride = Layer::kStride;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);

// Outputs (row, column ... column + kCount - 1) of one filter; `plane` is the filter's plane of y.
template <int kCount>
__device__ __forceinline__ void store_outputs(T* __restrict__ plane, int row, int column, const float (&sums)[kCount], float bias) {
  if (row >= Layer::kOutHeight || column >= Layer::kOutWidth) return;
  T* to = plane + row * Layer::kOutWidth + column;
  Vector<T, kCount> run;
#pragma unroll
  for (int i = 0; i < kCount; ++i) run.value[i] = activated<kActivation, T>(sums[i] + bias);
  if constexpr (Layer::kOutWidth % kCount == 0) {
    store_vector(to, run);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (column + i < Layer::kOutWidth) to[i] = run.value[i];
    }
  }
}

// One output from global memory, its bias not added. `image` is an image of x, `filter` a filter of w.
__device__ __noinline__ float plain_sum(const T* __restrict__ image, const T* __restrict__ filter, int row, int column) {
  float sum = 0.0f;
#pragma unroll 1
  for (int tap = 0; tap < kChannels * kTaps; ++tap) {
    const int i = row * kStride - Layer::kPad + tap % kTaps / kSize, j = column * kStride - Layer::kPad + tap % kSize;
    if (static_cast<unsigned>(i) >= Layer::kHeight || static_cast<unsigned>(j) >= Layer::kWidth) continue;
    sum = fmaf(to_float(image[(tap / kTaps * Layer::kHeight + i) * Layer::kWidth + j]), to_float(filter[tap]), sum);
  }
  return sum;
}
