// conv3x3_half_shuffle by plain multiply-adds, for GPUs before sm_90: y = shuffle(act(conv(x, w) + bias)), 3x3 filters, in fp16 and bfloat16.
//
// x [n, H, W, C], filters (w, packed: channels_last/layer.cuh), bias [K], y [n, K / 4, 2 H, 2 W]; padding 1.
//
// Mapping: channels_last/direct.cuh. Bytes: x once for each tap and 8 filters, from L1 or L2; y once.
#include "channels_last/direct.cuh"

ASSERT_LAUNCH(conv3x3_half_shuffle_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    conv3x3_half_shuffle_direct(const T* __restrict__ x, const T* __restrict__ filters, const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  channels_last_direct<false, true>({x, nullptr, filters, bias, n, y});
}
