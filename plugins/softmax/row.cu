// softmax (see kernel.cu) with a block a row: for rows of medium length, and for long ones where there are many.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: row.cuh, one block a row, of as many threads as the variant declares; they hold the row in registers.
// Bytes: x and y once.
#include "softmax/row.cuh"

using softmax::T;
ASSERT_LAUNCH_WHERE(softmax_row, LAUNCH_THREADS == 128 || LAUNCH_THREADS == 256 || LAUNCH_THREADS == 1024, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS) softmax_row(const T* __restrict__ x, int rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  softmax::row_in_registers<1, LAUNCH_THREADS>(x, y);
}
