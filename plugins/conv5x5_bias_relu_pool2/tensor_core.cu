// conv5x5_bias_relu_pool2 on tensor cores: y = maxpool2(relu(conv(x, w) + bias)).
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, (H - 4) / 2, (W - 4) / 2].
//
// Operands are fp16 (bfloat16 where T is that), sums float. With T = float this is a mode of reduced precision: operands are
// rounded to fp16, and magnitudes over 65504 become infinite.
// Mapping: conv5x5/by_mma.cuh. Bytes: x and y once.
// What was measured: docs/kernels/conv5x5_bias_relu_pool2.md.
#include "conv5x5/by_mma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kWindow>;
constexpr Activation kActivation = Activation::kRelu;
using Plan = MmaPlan<Shape, T, false>;
ASSERT_LAUNCH(conv5x5_bias_relu_pool2_tensor, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kMmaThreads)
    conv5x5_bias_relu_pool2_tensor(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                                   T* __restrict__ y) {
  conv5x5_by_mma<Plan, kActivation>(x, w, bias, n, y);
}
