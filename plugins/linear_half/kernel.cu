// linear_half by plain multiply-adds, for GPUs other than Hopper: y = act(x w^T + bias), in fp16 or bfloat16.
//
// x [n, I], weights (w, packed: linear/packed.cuh), bias [O], y [n, O].
//
// Mapping: linear_half/direct.cuh. Bytes: x and the weights from L1 or L2, once for each thread; y once.
#include "linear_half/layer.cuh"

#include "linear_half/direct.cuh"

ENTRY_DIRECT(linear_half_direct)
