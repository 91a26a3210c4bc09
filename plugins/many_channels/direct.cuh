// The convolution of many channels by plain multiply-adds, on any GPU.
//
// Mapping: a thread computes 8 filters of a pixel; neighbouring threads have neighbouring pixels, so a warp reads neighbouring elements of
// x, and each weight once for all its lanes.
#pragma once

#include "many_channels/layer.cuh"

constexpr int kDirectThreads = 128;

// `added` is added before the activation if kAdds.
template <bool kAdds>
__device__ __forceinline__ void many_channels_direct(const T* __restrict__ x, const T* __restrict__ added, const __half* __restrict__ filters,
                                                     const T* __restrict__ scales, const T* __restrict__ bias, int n, T* __restrict__ y) {
  constexpr int kOut = 8, kGroups = ceil_div(kFilters, kOut);
  const int index = blockIdx.x / kGroups * kDirectThreads + threadIdx.x, first_filter = blockIdx.x % kGroups * kOut;
  if (index >= n * Layer::kOutPlane) return;
  const Pixel pixel(index);
  float sums[kOut] = {};
  plain_sums(sums, x, filters, scales, pixel, first_filter);
#pragma unroll
  for (int f = 0; f < kOut; ++f) {
    if (!kAllEights && first_filter + f >= kFilters) return;
    const size_t place = pixel.place(first_filter + f);
    y[place] = activate<kActivation>(sums[f] + bias[(first_filter + f) / kSquare] + (kAdds ? added[place] : 0.0f));
  }
}
