// many_channel_conv by plain multiply-adds, for GPUs before sm_80: y = act(conv(x, w) + bias) from many channels to many.
//
// x [n, C, H, W], filters [R, R, C, K] (w, packed), bias [K], y [n, K, OH, OW]; stride and padding are the same on all sides.
//
// Mapping: a thread computes 8 filters of a pixel; neighbouring threads have neighbouring pixels, so a warp reads neighbouring elements of
// x, and each weight once for all its lanes. Bytes: x once for each tap and 8 filters, from L1 or L2; y once.
#include "many_channels/layer.cuh"

constexpr int kThreads = 128, kOut = 8, kGroups = kFilters / kOut;
ASSERT_LAUNCH(many_channel_conv_direct, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    many_channel_conv_direct(const T* __restrict__ x, const T* __restrict__ filters, const T* __restrict__ bias, int n, T* __restrict__ y) {
  const int index = blockIdx.x / kGroups * kThreads + threadIdx.x, first_filter = blockIdx.x % kGroups * kOut;
  if (index >= n * Layer::kOutPlane) return;
  const Pixel pixel(index);
  float sums[kOut] = {};
  plain_sums(sums, x, filters, pixel, first_filter);
#pragma unroll
  for (int f = 0; f < kOut; ++f) {
    y[pixel.place(first_filter + f)] = activate<kActivation>(sums[f] + bias[first_filter + f]);
  }
}
