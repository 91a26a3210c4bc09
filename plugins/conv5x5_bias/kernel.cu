// conv5x5_bias: y = act(conv(x, w) + bias); 5x5 filters, stride 1, no padding; act is nothing, ReLU or tanh.
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, H - 4, W - 4].
//
// The portable variant, by plain multiply-adds: any number of channels and filters, any image size, any GPU.
// Mapping: conv5x5/by_ffma.cuh. Bytes: y once; x once a filter group, from L2 after the first.
// What was measured: docs/kernels/conv5x5_bias.md.
#include "conv5x5/by_ffma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kRow>;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
ASSERT_LAUNCH(conv5x5_bias, kFfmaThreads, 0);

extern "C" __global__ void __launch_bounds__(kFfmaThreads)
    conv5x5_bias(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) {
  conv5x5_by_ffma<Shape, kActivation>(x, w, bias, n, y);
}
