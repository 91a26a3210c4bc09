// softmax (see kernel.cu) with a block a row: for rows of medium length, and for long ones where there are many.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: row.cuh, one block of 128, 256 or 1024 threads a row; the threads hold the row in registers.
// Bytes: x and y once.
#include "softmax/row.cuh"

#define SOFTMAX_ROW(NAME, THREADS)                                                                             \
  ASSERT_LAUNCH(NAME, THREADS, 0);                                                                             \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                        \
      NAME(const softmax::T* __restrict__ x, int rows, softmax::T* __restrict__ y) {                           \
    if constexpr (is_launched(#NAME)) softmax::row_in_registers<1, THREADS>(x, y);                             \
  }

SOFTMAX_ROW(softmax_row128, 128)
SOFTMAX_ROW(softmax_row256, 256)
SOFTMAX_ROW(softmax_row1024, 1024)
