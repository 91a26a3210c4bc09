// batched_matmul, step 3: one thread per tile of 4x4 elements of y, which it keeps in registers.
//
// For 16 multiply-adds a thread loads 4 elements of a and 4 of b: half a load each, not two. The rows and columns of a tile lie apart,
// so that neighbouring threads have neighbouring columns and their accesses lie in different banks.
// What is left for the product: small products still leave most of a block idle (several of them in a block), copies of 4 bytes wait
// in registers (16 bytes a copy, without registers), and shared memory is read 4 bytes at a time (16 bytes, in rows that begin in
// different banks).
//
// Grid: batch blocks of 128.
#include "common.cuh"

using T = TYPE_T;
constexpr int kM = AXIS_M, kN = AXIS_N, kK = AXIS_K_BEFORE_M * AXIS_K_AFTER_M;
constexpr int kRowA = AXIS_K_AFTER_M, kStepA = AXIS_K_BEFORE_M == 1 ? 1 : kM;
constexpr int kColumnB = AXIS_K_AFTER_N, kStepB = AXIS_K_BEFORE_N == 1 ? 1 : kN;
constexpr int kThreads = 128, kTile = 4;
constexpr int kTilesM = (kM + kTile - 1) / kTile, kTilesN = (kN + kTile - 1) / kTile;

extern "C" __global__ void batched_matmul_step03(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  __shared__ T own_a[kM * kK], own_b[kK * kN];
  const size_t product = blockIdx.x;
  for (int i = threadIdx.x; i < kM * kK; i += kThreads) own_a[i] = a[product * (kM * kK) + i];
  for (int i = threadIdx.x; i < kK * kN; i += kThreads) own_b[i] = b[product * (kK * kN) + i];
  __syncthreads();
  for (int tile = threadIdx.x; tile < kTilesM * kTilesN; tile += kThreads) {
    const int row = tile / kTilesN, column = tile % kTilesN;  // the first of the tile; the next ones are kTilesM and kTilesN on
    float sums[kTile][kTile] = {};
    for (int k = 0; k < kK; ++k) {
      float left[kTile], right[kTile];
#pragma unroll
      for (int i = 0; i < kTile; ++i) {
        left[i] = to_float(own_a[min(row + i * kTilesM, kM - 1) * kRowA + k * kStepA]);
        right[i] = to_float(own_b[min(column + i * kTilesN, kN - 1) * kColumnB + k * kStepB]);
      }
#pragma unroll
      for (int i = 0; i < kTile; ++i) {
#pragma unroll
        for (int j = 0; j < kTile; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
      }
    }
#pragma unroll
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
      for (int j = 0; j < kTile; ++j) {
        const int at_row = row + i * kTilesM, at_column = column + j * kTilesN;
        if (at_row < kM && at_column < kN) {
          y[product * (kM * kN) + at_row * kN + at_column] = from_float<T>(ATTR_ALPHA * sums[i][j]);
        }
      }
    }
  }
}
