// channel_layer_norm: y = (x - mean) / sqrt(variance + epsilon) * scale + bias, over the channels of each pixel; any number of them, any architecture.
//
// x [n, H, W, K], scale [K], bias [K] -> y [n, H, W, K]: a pixel is a row.
//
// Mapping: layer_norm/block.cuh, a block a row. The other variants keep the row in registers.
// Bytes: x and y once from DRAM, x twice more from L2.
// What was measured: docs/kernels/convnext.md.
#include "layer_norm/block.cuh"

using layer_norm::T;
ASSERT_LAUNCH(channel_layer_norm_block, layer_norm::kThreads, 0);

extern "C" __global__ void __launch_bounds__(layer_norm::kThreads)
    channel_layer_norm_block(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, int rows,
                     T* __restrict__ y) {
  wait_for_previous_kernel();
  if (are_few<layer_norm::kLength>(rows)) allow_next_kernel();
  layer_norm::block_of_row(x, layer_norm::NoResidual{}, layer_norm::LayerNorm{scale, bias}, y);
}
