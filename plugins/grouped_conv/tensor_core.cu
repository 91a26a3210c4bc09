// grouped_conv on tensor cores: y = act(conv(x, w) + bias), stride 1; T has 16 bits.
//
// x [n, G * CG, H, W], w [G * KG, CG, R, R], bias [G * KG], y [n, G * KG, OH, OW]; padding alike on all sides.
//
// Mapping: tensor_core.cuh. Bytes: x once, save the rows that two bands share, w for each band, and y once.
// What was measured: docs/kernels/grouped_conv.md.
#include "tensor_core.cuh"

using Plan = GroupPlan<2>;
ASSERT_LAUNCH(grouped_conv_tensor, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(Plan::kThreads)
    grouped_conv_tensor(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  grouped_bands<Plan>(x, w, bias, n, y);
}
