// conv5x5_bias_relu_pool2 on tensor cores: y = maxpool2(relu(conv(x, w) + bias)).
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, (H - 4) / 2, (W - 4) / 2]. Operands in fp16 (bfloat16 where T is that), sums in float.
// With T = float this is a reduced-precision mode: operands are rounded to fp16, and magnitudes over 65504 become infinite.
//
// The thread mapping is described in conv5x5/by_mma.cuh. Bytes moved: x and y once.
// On an H200 (driver 580, CUDA 13.0, median of 20 launches, 10000 images of 28x28, 50 filters, float): 92 us,
// and 77 us with T = __half; writing y alone takes 65 us. The path from registers to L2 is the limit, 75% busy: the sums of a
// product lie across four filters, so each cycle of a store moves 32 bytes.
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
