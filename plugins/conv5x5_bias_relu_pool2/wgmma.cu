// conv5x5_bias_relu_pool2 at float accuracy on Hopper's tensor cores, one channel: y = maxpool2(relu(conv(x, w) + bias)), all float.
//
// x [n, 1, H, W], w [K, 1, 5, 5], bias [K], y [n, K, (H - 4) / 2, (W - 4) / 2].
//
// Numbers are split and guarded as in split.cu; the products are wgmma's, which other architectures do not have.
// Mapping: conv5x5/by_wgmma.cuh. Bytes: x and y once.
// What was tried and measured: docs/kernels/conv5x5_bias_relu_pool2.md.
#include "conv5x5/by_wgmma.cuh"

using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kWindow>;
constexpr int kBlocks = 3;  // a multiprocessor

ASSERT_LAUNCH(conv5x5_bias_relu_pool2_wgmma, kWgmmaThreads, WgmmaPlan<Shape>::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kWgmmaThreads, kBlocks)
    conv5x5_bias_relu_pool2_wgmma(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias, int n,
                                  float* __restrict__ y) {
  conv5x5_by_wgmma<Shape, Activation::kRelu>(x, w, bias, n, y);
}
