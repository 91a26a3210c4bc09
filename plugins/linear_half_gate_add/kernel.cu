// linear_half_gate_add by plain multiply-adds, for GPUs other than Hopper: y = act(gate (x w^T + bias) + other), in fp16 or bfloat16.
//
// x [n, t, I], other and y [n, t, O], gate [n, O], weights (w, packed: linear/packed.cuh), bias [O].
//
// Mapping: linear_half/direct.cuh. Bytes: x and the weights from L1 or L2, once for each thread; y and other once.
#include "linear_half_gate_add/layer.cuh"

#include "linear_half/direct.cuh"

ENTRY_DIRECT(linear_half_gate_add_direct)
