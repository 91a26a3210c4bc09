// batched_matmul without shared memory: a thread loads the rows of a and the columns of b that it needs, and L1 has what several need.
//
// Shapes: see kernel.cu.
//
// Mapping: a thread computes 4 columns of one row of a product; neighbouring threads have neighbouring columns. No barrier: a warp goes
// on as soon as its own loads are there. It suits few rows that load in pieces of 16 bytes.
//
// Bytes: a, b and y once from memory; from L1 a once per 4 columns, b once per row.
// What was tried and measured: docs/kernels/batched_matmul.md.
#include "tile.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(batched_matmul_direct, kThreads, 0);
using OwnTile = Tile<1, 4>;

extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matmul_direct(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  wait_for_previous_kernel();
  const long long item = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x, product = item / OwnTile::kTiles;
  if (product >= batch) return;
  OwnTile tile(static_cast<int>(item % OwnTile::kTiles));
  tile.multiply<kAlongA ? kK : kM, kAlongB ? kK : kN>(a + product * (kM * kK), b + product * (kK * kN));
  tile.write<true>(y + product * (kM * kN));
}
