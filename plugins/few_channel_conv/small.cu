#include "tensor_core.cuh"

using Plan = TensorPlan<4, 4, false>;
ASSERT_LAUNCH(few_channel_conv_small, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(Plan::kThreads, 4)
    few_channel_conv_small(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                           T* __restrict__ y) {
  few_channel_conv_by_mma<Plan>(x, w, bias, n, y);
}
