// The depthwise convolution from global memory; windows/direct.cuh has the mapping. x [n * C, H, W], w [C, R, R], bias [C].
#pragma once

#include "layer.cuh"
#include "windows/direct.cuh"

template <int kRows, int kThreads>
__device__ __forceinline__ void depthwise_direct(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias,
                                                 int n, T* __restrict__ y) {
  const DirectItem<Layer, kRows, kThreads> item;
  if (item.plane >= static_cast<unsigned>(n) * kChannels) return;
  const Convolution convolution(w, bias, item.plane % kChannels);
  const size_t plane = item.plane;
  compute_direct(item, x + plane * Layer::kPlane, convolution, y + plane * Layer::kOutPlane);
}
