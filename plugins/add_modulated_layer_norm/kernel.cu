// add_modulated_layer_norm: sum = x + other; y = modulated_layer_norm(sum), over each row; any architecture.
//
// x and other [n, t, K], factor and shift [n, parts, K], scale and bias [K] -> y [n, t, K], sum [n, t, K].
//
// Mapping: layer_norm/block.cuh, a block a row. The other variants keep the row in registers.
// Bytes: x, other, sum and y once from DRAM, the sum three times from L2.
#include "layer_norm/block.cuh"
#include "modulated_layer_norm/of_images.cuh"

using layer_norm::T;
ASSERT_LAUNCH(add_modulated_layer_norm_block, layer_norm::kThreads, 0);

extern "C" __global__ void __launch_bounds__(layer_norm::kThreads)
    add_modulated_layer_norm_block(const T* __restrict__ x, const T* __restrict__ other, const T* __restrict__ factor,
            const T* __restrict__ shift, const T* __restrict__ scale, const T* __restrict__ bias, int rows, int tokens,
            T* __restrict__ y, T* __restrict__ sum) {
  wait_for_previous_kernel();
  if (are_few<layer_norm::kLength>(rows)) allow_next_kernel();
  const layer_norm::Residual residual{other, sum};
  const layer_norm::ModulatedNorm norm = layer_norm::modulated_norm(scale, bias, factor, shift, tokens);
  layer_norm::block_of_row(x, residual, norm, y);
}
