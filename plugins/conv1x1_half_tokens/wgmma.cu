// conv1x1_half_tokens by wgmma, Hopper's own instruction for its tensor cores: y = act(w x + bias) for each pixel, in fp16 or bfloat16.
//
// x [n, H, W, C], weights (w, packed: linear/packed.cuh), bias [K], y [n, H, W, K].
//
// Mapping and bytes: those of conv1x1_half.
// What is known of it: docs/kernels/conv1x1_half.md.
#include "conv1x1_half/layer.cuh"

#include "linear_half/wgmma_entries.cuh"

ENTRIES_BY_WGMMA(conv1x1_half_tokens, Rows<Layer>)
