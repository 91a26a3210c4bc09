// linear_half of few rows by tensor cores: y = act(x w^T + bias), in fp16 or bfloat16.
//
// x [n, I], weights (w, packed: linear/packed.cuh), bias [O], y [n, O].
//
// Mapping and bytes: linear_half/few_rows.cuh.
#include "linear_half/layer.cuh"

#include "linear_half/few_rows.cuh"

ENTRY_OF_FEW_ROWS(linear_half_few8, 8)
ENTRY_OF_FEW_ROWS(linear_half_few16, 16)
ENTRY_OF_FEW_ROWS(linear_half_few32, 32)
