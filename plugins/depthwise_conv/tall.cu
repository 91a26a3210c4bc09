// depthwise_conv from global memory with seven rows a thread: fewer reads of L1 than kernel.cu, and fewer threads.
//
// x [n, C, H, W], w [C, 1, R, R], bias [C], y [n, C, OH, OW]. Mapping: direct.cuh. Bytes: x and y once.
// What was measured: docs/kernels/depthwise_conv.md.
#include "direct.cuh"

constexpr int kThreads = 128, kRows = 7;
ASSERT_LAUNCH(depthwise_conv_tall, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    depthwise_conv_tall(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  wait_for_previous_kernel();
  depthwise_direct<kRows, kThreads>(x, w, bias, n, y);
}
