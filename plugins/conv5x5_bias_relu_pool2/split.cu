// conv5x5_bias_relu_pool2 at float accuracy on tensor cores: y = maxpool2(relu(conv(x, w) + bias)). T is float.
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, (H - 4) / 2, (W - 4) / 2]. Each operand is split into two fp16 halves after scaling,
// three products replace one; numbers that cannot be split send their images to plain multiply-adds. See
// conv5x5/mma_parts.cuh for the split and its guard, conv5x5/by_mma.cuh for the thread mapping.
//
// Bytes moved: x and y once.
// On sm_90 wgmma.cu is preferred, where it fits.
// On an H200 (driver 580, CUDA 13.0, median of 20 launches, 10000 images of 28x28, 50 filters, float): 187 us.
// The products alone need 115 us (mma.sync with changing operands issues every 4 ns); preparing operands and the guard, about
// 40 us when alone, overlap only in part.
#include "conv5x5/by_mma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kWindow>;
constexpr Activation kActivation = Activation::kRelu;
using Plan = MmaPlan<Shape, T, true>;
ASSERT_LAUNCH(conv5x5_bias_relu_pool2_split, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kMmaThreads)
    conv5x5_bias_relu_pool2_split(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                                   T* __restrict__ y) {
  conv5x5_by_mma<Plan, kActivation>(x, w, bias, n, y);
}
