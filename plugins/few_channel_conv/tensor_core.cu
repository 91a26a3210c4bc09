#include "tensor_core.cuh"

using Plan = TensorPlan<8, 8, false>;
constexpr int kBlocks = Plan::kTiles > 4 ? 2 : 3;
ASSERT_LAUNCH(few_channel_conv_large, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(Plan::kThreads, kBlocks)
    few_channel_conv_large(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                           T* __restrict__ y) {
  few_channel_conv_by_mma<Plan>(x, w, bias, n, y);
}
