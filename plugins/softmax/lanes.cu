// softmax (see kernel.cu) with one or two rows a warp: for short rows.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: lanes.cuh, 8 rows a block, so 16 or 32 lanes a row as the variant declares its threads; they hold it in registers.
// Bytes: x and y once.
#include "softmax/lanes.cuh"

using softmax::T;
constexpr int kRows = 8;
ASSERT_LAUNCH_WHERE(softmax_lanes, LAUNCH_THREADS == 16 * kRows || LAUNCH_THREADS == 32 * kRows, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS) softmax_lanes(const T* __restrict__ x, int rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  softmax::rows_of_lanes<kRows, LAUNCH_THREADS / kRows>(x, rows, y);
}
