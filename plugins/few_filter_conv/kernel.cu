// few_filter_conv by plain multiply-adds: y = act(conv(x, w) + bias), where y has few channels.
//
// x [n, C, H, W], w [K, C, R, R], bias [K], y [n, K, OH, OW]; stride and padding are the same on all sides.
//
// Mapping: few_channels/direct.cuh. Bytes: x, save the borders of tiles, once for each block's filters; y once.
// What was measured: docs/kernels/few_channel_conv.md.
#include "few_channels/direct.cuh"

ASSERT_LAUNCH(few_filter_conv_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads, 4)
    few_filter_conv_direct(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  few_channels_direct(x, w, bias, y);
}
