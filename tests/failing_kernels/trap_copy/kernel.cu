// trap_copy: y = x, and the GPU stops where x is negative. Made to see what becomes of a failure inside a network.
#include "common.cuh"

using T = TYPE_T;
ASSERT_LAUNCH(trap_copy_plain, 128, 0);

extern "C" __global__ void __launch_bounds__(128)
    trap_copy_plain(const T* __restrict__ x, int n, T* __restrict__ y) {
  const int index = blockIdx.x * 128 + threadIdx.x;
  if (index >= n) return;
  if (x[index] < T(0)) __trap();
  y[index] = x[index];
}
