// softmax (see kernel.cu) with four rows a warp: for rows of up to 128 elements.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: lanes.cuh, 16 rows a block, 8 lanes a row; they hold it in registers.
// Bytes: x and y once.
#include "softmax/lanes.cuh"

using softmax::T;
constexpr int kRows = 16;
constexpr int kLanes = 8;
ASSERT_LAUNCH(softmax_lanes8, kRows * kLanes, 0);

extern "C" __global__ void __launch_bounds__(kRows * kLanes) softmax_lanes8(const T* __restrict__ x, int rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  softmax::rows_of_lanes<kRows, kLanes>(x, rows, y);
}
