// many_channel_conv1d by plain multiply-adds, for GPUs before sm_80: y = act(conv(x, w) + bias) along one axis, from many channels to many.
//
// x [n, C, W], filters and scales (w, packed: many_channels/layer.cuh), bias [K], y [n, K, OW]; neighbouring taps are a dilation apart.
//
// Mapping: many_channels/direct.cuh. Bytes: x once for each tap and 8 filters, from L1 or L2; y once.
#include "many_channels/direct.cuh"

ASSERT_LAUNCH(many_channel_conv1d_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    many_channel_conv1d_direct(const T* __restrict__ x, const __half* __restrict__ filters, const T* __restrict__ scales,
                               const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  many_channels_direct<false>(x, nullptr, filters, scales, bias, n, y);
}
