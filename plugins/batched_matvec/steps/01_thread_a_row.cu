// batched_matvec, step 1: one thread per row, the simplest program.
//
// a [outer, broadcast, inner, rows, K], x [outer, inner, K], y [outer, broadcast, inner, rows], as in ../kernel.cu.
//
// Neighbouring threads read addresses a whole row apart, so a warp's load touches 32 cache lines for 128 useful bytes. The rest
// of each line is used by the loads that follow, if L1 still holds it by then: 32 rows a warp times many warps is more than L1.
//
// Grid: ceil(total / 256) blocks of 256, total = outer * broadcast * inner * rows.
#include "common.cuh"

using T = TYPE_T;
constexpr int kLength = AXIS_K;

extern "C" __global__ void batched_matvec_step01(const T* __restrict__ a, const T* __restrict__ x, int outer, int broadcast,
                                                 int inner, int rows, T* __restrict__ y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= outer * broadcast * inner * rows) return;
  const int vector = row / rows;
  const int x_row = vector / (inner * broadcast) * inner + vector % inner;

  float sum = 0.0f;
  for (int k = 0; k < kLength; ++k) {
    sum = fmaf(to_float(a[static_cast<size_t>(row) * kLength + k]), to_float(x[static_cast<size_t>(x_row) * kLength + k]), sum);
  }
  y[row] = from_float<T>(sum);
}
