// add_layer_norm: sum = x + other; y = layer_norm(sum), over each row; any length, any architecture.
//
// x [rows, K], other [rows, K], scale [K], bias [K] -> y [rows, K], sum [rows, K].
//
// Mapping: layer_norm/block.cuh, a block a row. The other variants keep the row in registers.
// Bytes: x, other, sum and y once from DRAM, the sum three times from L2.
// What was measured: docs/kernels/layer_norm.md.
#include "layer_norm/block.cuh"

using layer_norm::T;
ASSERT_LAUNCH(add_layer_norm_block, layer_norm::kThreads, 0);

extern "C" __global__ void __launch_bounds__(layer_norm::kThreads)
    add_layer_norm_block(const T* __restrict__ x, const T* __restrict__ other, const T* __restrict__ scale,
                          const T* __restrict__ bias, int rows, T* __restrict__ y, T* __restrict__ sum) {
  wait_for_previous_kernel();
  if (are_few<layer_norm::kLength>(rows)) allow_next_kernel();
  layer_norm::block_of_row(x, layer_norm::Residual{other, sum}, layer_norm::LayerNorm{scale, bias}, y);
}
