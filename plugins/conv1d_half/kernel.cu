// conv1d_half by plain multiply-adds, for GPUs other than Hopper: y = act(conv(x, w) + bias) along one axis, in fp16 or bfloat16.
//
// x [n, W, C], weights (w, packed: conv1d_half/layer.cuh), bias [K], y [n, OW, K].
//
// Mapping: conv1d_half/direct.cuh. Bytes: x once for each tap and 8 outputs, and the weights once for each row, from L1 or L2; y once.
#include "conv1d_half/direct.cuh"

ASSERT_LAUNCH(conv1d_half_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    conv1d_half_direct(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  conv1d_direct({x, weights, bias, rows, y});
}
