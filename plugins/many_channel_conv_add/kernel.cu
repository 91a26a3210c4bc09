// many_channel_conv_add by plain multiply-adds, for GPUs before sm_80: y = act(conv(x, w) + bias + other) from many channels to many.
//
// x [n, C, H, W], other [n, K, OH, OW], filters and scales (w, packed: many_channels/layer.cuh), bias [K], y [n, K, OH, OW];
// stride and padding are the same on all sides.
//
// Mapping: many_channels/direct.cuh. Bytes: x once for each tap and 8 filters, from L1 or L2; other and y once.
#include "many_channels/direct.cuh"

ASSERT_LAUNCH(many_channel_conv_add_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    many_channel_conv_add_direct(const T* __restrict__ x, const T* __restrict__ other, const __half* __restrict__ filters,
                                 const T* __restrict__ scales, const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  many_channels_direct<true>(x, other, filters, scales, bias, n, y);
}
