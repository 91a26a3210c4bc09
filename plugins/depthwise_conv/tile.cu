// depthwise_conv from shared memory: y = act(conv(x, w) + bias), one filter of R x R for each channel.
//
// x [n, C, H, W], w [C, 1, R, R], bias [C], y [n, C, OH, OW]; stride and padding are the same on all sides.
//
// Mapping: tile.cuh; a block a unit. Bytes: x once, save the rows that two bands share, and y once.
// What was measured: docs/kernels/depthwise_conv.md.
#include "tile.cuh"

using Plan = Tiling<7, 64>;
ASSERT_LAUNCH(depthwise_conv_tile, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(Plan::kThreads)
    depthwise_conv_tile(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  wait_for_previous_kernel();
  depthwise_tile<Plan>(x, w, bias, n, y);
}
