// few_channel_conv by wgmma, Hopper's own instruction for its tensor cores: y = act(conv(x, w) + bias), where x has 1 to 4 channels; in floats.
//
// x [n, C, H, W], w [K, C, R, R], bias [K], y [n, K, OH, OW]; stride and padding are the same on all sides.
//
// Mapping: few_channels/by_wgmma.cuh. Bytes: x, save the borders of tiles, once for each 64 filters; y once.
// What was measured: docs/kernels/few_channel_conv.md.
#include "few_channels/by_wgmma.cuh"

ASSERT_LAUNCH(few_channel_conv_wgmma, kWgmmaThreads, Stem::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kWgmmaThreads, 1)
    few_channel_conv_wgmma(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float scales[Stem::kFilterBlock];
  few_channels_by_wgmma(shared, scales, x, w, bias, n, y);
}
