// linear_half_gated by wgmma, Hopper's own instruction for its tensor cores: y = act(x gate^T + gate_bias) * (x w^T + bias), in fp16 or bfloat16.
//
// x [n, I], weights (gate and w, packed: layer.cuh), bias [2 O], y [n, O].
//
// Mapping: linear_half/by_wgmma.cuh, with 2 O columns; a tile of 256 columns has 128 results. Bytes: those of linear_half, with half as much of y.
// Source: Shazeer, GLU Variants Improve Transformer, 2020. What is known of it: docs/kernels/linear_half_gated.md.
#include "linear_half_gated/gated_rows.cuh"

#include "linear_half/wgmma_entries.cuh"

ENTRIES_BY_WGMMA(linear_half_gated, Rows<Layer>)
