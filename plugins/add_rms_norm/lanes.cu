// add_rms_norm (see kernel.cu) with one or several rows a warp: for rows of up to a thousand elements.
//
// x [rows, K], other [rows, K], scale [K] -> y [rows, K], sum [rows, K].
//
// Mapping: layer_norm/lanes.cuh.
// Bytes: x, other, sum and y once; scale from L1.
#include "layer_norm/lanes.cuh"

using layer_norm::T;
ASSERT_LAUNCH_WHERE(add_rms_norm_lanes, layer_norm::is_written_for(LAUNCH_THREADS), 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    add_rms_norm_lanes(const T* __restrict__ x, const T* __restrict__ other, const T* __restrict__ scale, int rows,
                       T* __restrict__ y, T* __restrict__ sum) {
  wait_for_previous_kernel();
  if (are_few<layer_norm::kLength>(rows)) allow_next_kernel();
  layer_norm::rows_of_lanes(x, layer_norm::Residual{other, sum}, layer_norm::RmsNorm{scale}, rows, y);
}
