// rms_norm: y = x / sqrt(mean square + epsilon) * scale, over each row; any length, any architecture.
//
// x [rows, K], scale [K] -> y [rows, K].
//
// Mapping: layer_norm/block.cuh, a block a row. The other variants keep the row in registers.
// Bytes: x and y once from DRAM, x once more from L2.
// What was measured: docs/kernels/layer_norm.md.
#include "layer_norm/block.cuh"

using layer_norm::T;
ASSERT_LAUNCH(rms_norm_block, layer_norm::kThreads, 0);

extern "C" __global__ void __launch_bounds__(layer_norm::kThreads)
    rms_norm_block(const T* __restrict__ x, const T* __restrict__ scale, int rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  if (are_few<layer_norm::kLength>(rows)) allow_next_kernel();
  layer_norm::block_of_row(x, layer_norm::NoResidual{}, layer_norm::RmsNorm{scale}, y);
}
