// linear_half_add by wgmma, Hopper's own instruction for its tensor cores: y = act(x w^T + bias + other) for each pixel, in fp16 or bfloat16.
//
// x [n, H, W, I], other and y [n, H, W, O], weights (w, packed: linear/packed.cuh), bias [O].
//
// Mapping: linear_half/by_wgmma.cuh, with pixels as rows. Bytes: those of linear_half, and other once.
// What is known of it: docs/kernels/convnext.md.
#include "linear_half_add/layer.cuh"

#include "linear_half/wgmma_entries.cuh"

ENTRIES_BY_WGMMA(linear_half_add, Rows<Layer>)
