// linear_half_gated by plain multiply-adds, for GPUs other than Hopper: y = act(x gate^T + gate_bias) * (x w^T + bias), in fp16 or bfloat16.
//
// x [n, I], weights (gate and w, packed: layer.cuh), bias [2 O], y [n, O].
//
// Mapping: linear_half/direct.cuh, a thread 4 results. Bytes: x and the weights from L1 or L2, once for each thread; y once.
#include "linear_half_gated/layer.cuh"

#include "linear_half/direct.cuh"

ENTRY_DIRECT(linear_half_gated_direct)
