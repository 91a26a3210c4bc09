// linear_half_gate_add by wgmma, Hopper's own instruction for its tensor cores: y = act(gate (x w^T + bias) + other), in fp16 or bfloat16.
//
// x [n, t, I], other and y [n, t, O], gate [n, O], weights (w, packed: linear/packed.cuh), bias [O].
//
// Mapping: linear_half/by_wgmma.cuh, with tokens as rows. Bytes: those of linear_half, and other once.
#include "linear_half_gate_add/layer.cuh"

#include "linear_half/wgmma_entries.cuh"

ENTRIES_BY_WGMMA(linear_half_gate_add, Rows<Layer>)
