// layer_norm (see kernel.cu) with a block a row: for rows of more than a thousand elements.
//
// x [rows, K], scale [K], bias [K] -> y [rows, K].
//
// Mapping: row.cuh, one block a row, of as many threads as the variant declares.
// Bytes: x and y once; scale and bias from L2.
#include "layer_norm/row.cuh"

using layer_norm::T;
ASSERT_LAUNCH_WHERE(layer_norm_row, LAUNCH_THREADS == 128 || LAUNCH_THREADS == 256 || LAUNCH_THREADS == 1024, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    layer_norm_row(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, int rows,
                   T* __restrict__ y) {
  wait_for_previous_kernel();
  if (are_few<layer_norm::kLength>(rows)) allow_next_kernel();
  layer_norm::row_in_registers<LAUNCH_THREADS>(x, layer_norm::NoResidual{}, layer_norm::LayerNorm{scale, bias}, y);
}
