// The pointwise convolution by plain multiply-adds, on any GPU.
//
// Mapping: a thread computes 8 filters of a pixel; neighbouring threads have neighbouring pixels. Bytes: x and the weights from L1 or L2, once
// for each thread; y once.
#pragma once

#include "pointwise/layer.cuh"

constexpr int kDirectThreads = 128;

template <bool kAdds>
__device__ __forceinline__ void pointwise_direct(const Layer& layer) {
  constexpr int kOut = 8, kGroups = ceil_div(kFilters, kOut);
  const int pixel = blockIdx.x / kGroups * kDirectThreads + threadIdx.x, first = blockIdx.x % kGroups * kOut;
  const int image = pixel / kPlane, at = pixel % kPlane;
  if (image >= layer.n) return;
  const T* const of_x = layer.x + (image * (kChannels * kPlane) + at);
  float sums[kOut] = {};
#pragma unroll 1
  for (int channel = 0; channel < kChannels; ++channel) {
    const float value = to_float(of_x[channel * kPlane]);
#pragma unroll
    for (int f = 0; f < kOut; ++f) sums[f] = fmaf(value, to_float(layer.weights[weight_at(first + f, channel)]), sums[f]);
  }
#pragma unroll
  for (int f = 0; f < kOut; ++f) {
    if (first + f >= kFilters) return;
    const int place = image * (kFilters * kPlane) + (first + f) * kPlane + at;
    const float sum = sums[f] + to_float(layer.bias[first + f]);
    layer.y[place] = activated<kActivation, T>(kAdds ? sum + to_float(layer.other[place]) : sum);
  }
}
