// merge_layer_norm: y = layer_norm of four merged pixels; any number of channels, any architecture.
//
// x [n, h, w, K / 4], scale [K], bias [K] -> y [n, h / 2, w / 2, K]: row (i, j) has the pixels (2i, 2j), (2i + 1, 2j), (2i, 2j + 1)
// and (2i + 1, 2j + 1) of x.
//
// Mapping: layer_norm/block.cuh, a block a row. The other variants keep the row in registers.
// Bytes: x and y once from DRAM, x twice more from L2.
// How it works: docs/kernels/layer_norm.md.
#include "layer_norm/block.cuh"
#include "merge_layer_norm/merged_rows.cuh"

using layer_norm::T;
ASSERT_LAUNCH(merge_layer_norm_block, layer_norm::kThreads, 0);

extern "C" __global__ void __launch_bounds__(layer_norm::kThreads)
    merge_layer_norm_block(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, int rows, int width,
                           T* __restrict__ y) {
  wait_for_previous_kernel();
  if (are_few<layer_norm::kLength>(rows)) allow_next_kernel();
  layer_norm::block_of_row(layer_norm::MergedRows{x, static_cast<unsigned>(width)}, layer_norm::NoResidual{}, layer_norm::LayerNorm{scale, bias}, y);
}
