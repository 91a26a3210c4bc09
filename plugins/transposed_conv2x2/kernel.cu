// transposed_conv2x2 by plain multiply-adds, for GPUs before sm_80: y = act(transposed conv(x, w) + bias), 2x2 filters at stride 2.
//
// x [n, C, H, W], filters [2, 2, C, K] and scales [4 K] (w, packed), bias [K], y [n, K, 2 H, 2 W].
//
// Mapping: many_channels/direct.cuh. Bytes: x once for 8 outputs, from L1 or L2; y once.
#define TRANSPOSED
#include "many_channels/direct.cuh"

ASSERT_LAUNCH(transposed_conv2x2_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    transposed_conv2x2_direct(const T* __restrict__ x, const __half* __restrict__ filters, const T* __restrict__ scales,
                              const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  many_channels_direct<false>(x, nullptr, filters, scales, bias, n, y);
}
