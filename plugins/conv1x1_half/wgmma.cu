// conv1x1_half by wgmma, Hopper's own instruction for its tensor cores: y = act(w x + bias) for each pixel, in fp16 or bfloat16.
//
// x [n, H, W, C], weights (w, packed: linear/packed.cuh), bias [K], y [n, H, W, K].
//
// Mapping: linear_half/by_wgmma.cuh, with pixels as rows.
// Bytes: x once for each tile across the filters and the weights once for each 128 pixels, from L2; y once.
// What is known of it: docs/kernels/conv1x1_half.md.
#include "conv1x1_half/layer.cuh"

#include "linear_half/wgmma_entries.cuh"

ENTRIES_BY_WGMMA(conv1x1_half, Rows<Layer>)
