// depthwise_conv: y = act(conv(x, w) + bias), one filter of R x R for each channel, from global memory.
//
// x [n, C, H, W], w [C, 1, R, R], bias [C], y [n, C, OH, OW]; stride and padding are the same on all sides.
//
// Mapping: direct.cuh; four rows of up to four outputs a thread. Bytes: x and y once from device memory.
// What was measured: docs/kernels/depthwise_conv.md.
#include "direct.cuh"

constexpr int kThreads = 128, kRows = 4;
// More warps are worth fewer registers, except for 7x7 filters.
constexpr int kBlocks = kSize < 7 ? 8 : 1;
ASSERT_LAUNCH(depthwise_conv_direct, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    depthwise_conv_direct(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                          T* __restrict__ y) {
  wait_for_previous_kernel();
  depthwise_direct<kRows, kThreads>(x, w, bias, n, y);
}
