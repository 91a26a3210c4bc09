// linear_half by wgmma, Hopper's own instruction for its tensor cores: y = act(x w^T + bias), in fp16 or bfloat16.
//
// x [n, I], weights (w, packed: linear/packed.cuh), bias [O], y [n, O].
//
// Mapping: linear_half/by_wgmma.cuh. Wide tiles, of up to 256 or 192 outputs, read x less often; narrow ones, of up to 128, are for few rows.
// What is known of it: docs/kernels/linear.md.
#include "linear_half/layer.cuh"

#include "linear_half/wgmma_entries.cuh"

ENTRIES_BY_WGMMA(linear_half, Rows<Layer>)
