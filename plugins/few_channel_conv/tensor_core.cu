// few_channel_conv on tensor cores: y = act(conv(x, w) + bias), where x has few channels.
//
// x [n, C, H, W], w [K, C, R, R], bias [K], y [n, K, OH, OW]; stride and padding are the same on all sides.
//
// Mapping: few_channels/tensor_core.cuh. Bytes: x, save the borders of tiles, once for each block's filters; y once.
// What was measured: docs/kernels/few_channel_conv.md.
#include "few_channels/tensor_core.cuh"

using Plan = TensorPlan<8, 8>;
ASSERT_LAUNCH(few_channel_conv_large, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(Plan::kThreads, 2)
    few_channel_conv_large(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  few_channels_by_mma<Plan>(x, w, bias, n, y);
}
