// depthwise_conv down columns: y = act(conv(x, w) + bias), one filter of R x R for each channel, at stride 1.
//
// x [n, C, H, W], w [C, 1, R, R], bias [C], y [n, C, H, W].
//
// Mapping: columns.cuh; a warp a few planes, or a part of their rows. Bytes: x and y once.
// What was measured: docs/kernels/depthwise_conv.md.
#include "columns.cuh"

constexpr int kWarps = 4;
ASSERT_LAUNCH(depthwise_conv_columns, 32 * kWarps, kWarps * ColumnPlan::kBytesOfWarp);

extern "C" __global__ void __launch_bounds__(32 * kWarps)
    depthwise_conv_columns(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                           T* __restrict__ y) {
  wait_for_previous_kernel();
  depthwise_columns<kWarps>(x, w, bias, n, y);
}
