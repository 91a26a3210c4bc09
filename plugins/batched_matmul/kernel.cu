// batched_matmul: y = alpha a b for many small matrices, by multiply-adds. For any sizes and layouts; tensor_core.cu has 16-bit types.
//
// a [batch, m, k] or, transposed, [batch, k, m]; b [batch, k, n] or [batch, n, k]; y [batch, m, n]; m, n and k are at most 64.
//
// Mapping: a block copies several matrices of a and b to shared memory, 16 bytes a copy, and each thread computes a tile of y from there:
// up to 4 rows (8 where m > 32) and 4 columns, or, in `batched_matmul_wide`, 8 rows and 8 columns, for which it loads less for each
// multiply-add. Many blocks on a multiprocessor keep the copies coming.
//
// Bytes: a, b and y once.
// What was tried and measured: docs/kernels/batched_matmul.md.
#include "staged.cuh"

constexpr int kThreads = 128, kThreadsWide = 64;
ASSERT_LAUNCH(batched_matmul, kThreads, 0);
ASSERT_LAUNCH(batched_matmul_wide, kThreadsWide, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matmul(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  wait_for_previous_kernel();
  multiply_staged<Tile<kM <= 32 ? 4 : 8, 4>, kThreads, 24 * 1024>(a, b, batch, y);
}

extern "C" __global__ void __launch_bounds__(kThreadsWide)
    batched_matmul_wide(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  wait_for_previous_kernel();
  multiply_staged<Tile<8, 8>, kThreadsWide, 45 * 1024>(a, b, batch, y);
}
