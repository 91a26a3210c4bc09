// conv5x5_bias on tensor cores: y = act(conv(x, w) + bias); act is nothing, ReLU or tanh.
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, H - 4, W - 4]. Operands in fp16 (bfloat16 where T is that), sums in float. With T =
// float this is a reduced-precision mode: operands are rounded to fp16, and magnitudes over 65504 become infinite.
//
// The thread mapping is described in conv5x5/by_mma.cuh. Bytes moved: x and y once.
#include "conv5x5/by_mma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kRow>;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
using Plan = MmaPlan<Shape, T, false>;
ASSERT_LAUNCH(conv5x5_bias_tensor, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kMmaThreads)
    conv5x5_bias_tensor(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  conv5x5_by_mma<Plan, kActivation>(x, w, bias, n, y);
}
