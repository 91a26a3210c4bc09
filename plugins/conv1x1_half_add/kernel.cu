// conv1x1_half_add by plain multiply-adds, for GPUs other than Hopper: y = act(w x + bias + other) for each pixel, in fp16 or bfloat16.
//
// x [n, H, W, C], weights (w, packed: linear/packed.cuh), bias [K], other and y [n, H, W, K].
//
// Mapping: linear_half/direct.cuh. Bytes: x and the weights from L1 or L2, once for each thread; y and other once.
#define ADDS_OTHER
#include "conv1x1_half/layer.cuh"

#include "linear_half/direct.cuh"

ENTRY_DIRECT(conv1x1_half_add_direct)
