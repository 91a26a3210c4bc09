// conv5x5_bias, step 6: bias, ReLU and 2x2 max-pooling in the same kernel. TYPE_T is float; y [n, K, (H - 4) / 2, (W - 4) / 2].
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K]. Writing y was the limit of step 5, and the network needs only a quarter of it. With pooling in
// registers, only this quarter is written, and no other kernel reads y back. This step is the same as conv5x5_bias_relu_pool2_split.
//
// Grid: min(ceil(n / images), 528) blocks of 96; images and the dynamic shared memory as for conv5x5_bias_relu_pool2_split.
#include "conv5x5/by_mma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kWindow>;
using Plan = MmaPlan<Shape, T, true>;
ASSERT_LAUNCH(conv5x5_bias_step06, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kMmaThreads)
    conv5x5_bias_step06(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  conv5x5_by_mma<Plan, Activation::kRelu>(x, w, bias, n, y);
}
