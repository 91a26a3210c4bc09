// modulated_layer_norm (see kernel.cu) with one or several rows a warp: for rows of up to a thousand elements.
//
// x [n, t, K], factor and shift [n, parts, K], scale and bias [K] -> y [n, t, K].
//
// Mapping: layer_norm/lanes.cuh.
// Bytes: x and y once; what columns have from L1.
#include "layer_norm/lanes.cuh"
#include "modulated_layer_norm/of_images.cuh"

using layer_norm::T;
ASSERT_LAUNCH_WHERE(modulated_layer_norm_lanes, layer_norm::is_written_for(LAUNCH_THREADS), 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    modulated_layer_norm_lanes(const T* __restrict__ x, const T* __restrict__ factor, const T* __restrict__ shift, const T* __restrict__ scale,
            const T* __restrict__ bias, int rows, int tokens, T* __restrict__ y) {
  wait_for_previous_kernel();
  if (are_few<layer_norm::kLength>(rows)) allow_next_kernel();
  const layer_norm::ModulatedNorm norm = layer_norm::modulated_norm(scale, bias, factor, shift, tokens);
  layer_norm::rows_of_lanes(x, layer_norm::NoResidual{}, norm, rows, y);
}
