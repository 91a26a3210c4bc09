// conv5x5_bias: y = act(conv(x, w) + bias); 5x5 filters, stride 1, no padding; act is nothing, ReLU or tanh.
#include "conv5x5_ffma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kRow>;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);

extern "C" __global__ void __launch_bounds__(kFfmaThreads)
    conv5x5_bias(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) {
  conv5x5_by_ffma<Shape, kActivation>(x, w, bias, n, y);
}
