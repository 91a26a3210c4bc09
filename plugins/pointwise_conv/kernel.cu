// pointwise_conv by plain multiply-adds: y = act(Conv(x, w, bias)), 1x1 filters, in fp16 or bfloat16.
//
// x [n, C, H, W], weights (w, packed: pointwise/layer.cuh), bias [K], y [n, K, H, W].
//
// Mapping and bytes: pointwise/direct.cuh. What is known of it: docs/kernels/pointwise_conv.md.
#include "pointwise/direct.cuh"

ASSERT_LAUNCH(pointwise_conv_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    pointwise_conv_direct(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int n,
                          T* __restrict__ y) {
  wait_for_previous_kernel();
  pointwise_direct<false>({x, nullptr, weights, bias, n, y});
}
