// batched_matmul without shared memory: a thread loads the rows of a and the columns of b that it needs, and L1 has what several need.
//
// Shapes: see kernel.cu.
//
// Mapping: a thread computes kRows rows and 4 columns of a product; neighbouring threads have neighbouring columns. No barrier: a warp
// goes on as soon as its own loads are there. It suits matrices that load in pieces of 16 bytes.
//
// Bytes: a, b and y once from memory; from L1 a once per 4 columns, b once per kRows rows.
// What was tried and measured: docs/kernels/batched_matmul.md.
#include "tile.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(batched_matmul_direct_rows1, kThreads, 0);
ASSERT_LAUNCH(batched_matmul_direct_rows2, kThreads, 0);
ASSERT_LAUNCH(batched_matmul_direct_rows4, kThreads, 0);

template <int kRows>
__device__ __forceinline__ void multiply_direct(const T* a, const T* b, int batch, T* y) {
  using Own = Tile<kRows, 4>;
  const long long item = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x, product = item / Own::kTiles;
  if (product >= batch) return;
  Own tile(static_cast<int>(item % Own::kTiles));
  tile.template multiply<kAlongA ? kK : kM, kAlongB ? kK : kN>(a + product * (kM * kK), b + product * (kK * kN));
  tile.template write<true>(y + product * (kM * kN));
}

extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matmul_direct_rows1(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  multiply_direct<1>(a, b, batch, y);
}
extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matmul_direct_rows2(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  multiply_direct<2>(a, b, batch, y);
}
extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matmul_direct_rows4(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  multiply_direct<4>(a, b, batch, y);
}
