// conv5x5_bias_relu_pool2 on tensor cores.
#include "conv5x5_mma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kWindow>;
constexpr Activation kActivation = Activation::kRelu;

// Operands rounded to fp16 (bfloat16 where T is that).
extern "C" __global__ void __launch_bounds__(kMmaThreads)
    conv5x5_bias_relu_pool2_tensor(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                                   T* __restrict__ y) {
  conv5x5_by_mma<MmaPlan<Shape, T, false>, kActivation>(x, w, bias, n, y);
}
