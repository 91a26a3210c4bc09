// conv5x5_bias_relu_pool2: y = maxpool2(relu(conv(x, w) + bias)); 5x5 filters, stride 1, no padding; 2x2 windows, stride 2, floor.
#include "conv5x5_ffma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kWindow>;
constexpr Activation kActivation = Activation::kRelu;

extern "C" __global__ void __launch_bounds__(kFfmaThreads)
    conv5x5_bias_relu_pool2(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) {
  conv5x5_by_ffma<Shape, kActivation>(x, w, bias, n, y);
}
