// batched_matvec, step 2: one warp per row, its lanes side by side along K.
//
// Now a warp's load is 32 neighbouring elements: every byte that moves is used at once. But with K = 64 a lane has two
// multiply-adds to do and then five shuffles to add up the lanes, and only two small loads are in flight while it waits.
//
// Grid: ceil(total / 8) blocks of 256.
#include "common.cuh"

using T = TYPE_T;
constexpr int kLength = AXIS_K;
constexpr int kWarpSize = 32;

extern "C" __global__ void batched_matvec_step02(const T* __restrict__ a, const T* __restrict__ x, int outer, int broadcast,
                                                 int inner, int rows, T* __restrict__ y) {
  const int lane = threadIdx.x % kWarpSize, row = (blockIdx.x * blockDim.x + threadIdx.x) / kWarpSize;
  if (row >= outer * broadcast * inner * rows) return;  // the same for the whole warp
  const int vector = row / rows;
  const int x_row = vector / (inner * broadcast) * inner + vector % inner;

  float sums[1] = {};
  for (int k = lane; k < kLength; k += kWarpSize) {
    sums[0] = fmaf(to_float(a[static_cast<size_t>(row) * kLength + k]), to_float(x[static_cast<size_t>(x_row) * kLength + k]),
                   sums[0]);
  }
  exchange_sums<1, kWarpSize / 2>(sums, lane);
  if (lane == 0) y[row] = from_float<T>(sums[0]);
}
