// conv5x5_bias_relu_pool2 split.
#include "conv5x5_mma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kWindow>;
constexpr Activation kActivation = Activation::kRelu;

extern "C" __global__ void __launch_bounds__(kMmaThreads)
    conv5x5_bias_relu_pool2_split(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                                   T* __restrict__ y) {
  conv5x5_by_mma<MmaPlan<Shape, T, true>, kActivation>(x, w, bias, n, y);
}
