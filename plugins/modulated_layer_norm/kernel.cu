// modulated_layer_norm: y = ((x - mean) / sqrt(variance + epsilon) * scale + bias) * (1 + factor) + shift, over each row; any architecture.
//
// x [n, t, K], factor and shift [n, parts, K], scale and bias [K] -> y [n, t, K].
//
// Mapping: layer_norm/block.cuh, a block a row. The other variants keep the row in registers.
// Bytes: x and y once from DRAM, x twice more from L2.
#include "layer_norm/block.cuh"
#include "modulated_layer_norm/of_images.cuh"

using layer_norm::T;
ASSERT_LAUNCH(modulated_layer_norm_block, layer_norm::kThreads, 0);

extern "C" __global__ void __launch_bounds__(layer_norm::kThreads)
    modulated_layer_norm_block(const T* __restrict__ x, const T* __restrict__ factor, const T* __restrict__ shift, const T* __restrict__ scale,
            const T* __restrict__ bias, int rows, int tokens, T* __restrict__ y) {
  wait_for_previous_kernel();
  if (are_few<layer_norm::kLength>(rows)) allow_next_kernel();
  const layer_norm::ModulatedNorm norm = layer_norm::modulated_norm(scale, bias, factor, shift, tokens);
  layer_norm::block_of_row(x, layer_norm::NoResidual{}, norm, y);
}
