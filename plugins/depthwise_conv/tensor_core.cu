// depthwise_conv on tensor cores: y = act(conv(x, w) + bias), one filter of R x R for each channel; T has 16 bits.
//
// x [n, C, H, W], w [C, 1, R, R], bias [C], y [n, C, OH, OW]; stride and padding are the same on all sides.
//
// Mapping: tensor_core.cuh; a warp a plane or a band of one. Bytes: x and y once.
// What was measured: docs/kernels/depthwise_conv.md.
#include "tensor_core.cuh"

using Plan = BandPlan<4>;
ASSERT_LAUNCH(depthwise_conv_tensor, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(Plan::kThreads)
    depthwise_conv_tensor(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                          T* __restrict__ y) {
  wait_for_previous_kernel();
  depthwise_bands<Plan>(x, w, bias, n, y);
}
