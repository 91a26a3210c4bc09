// conv1x1_half_tokens by plain multiply-adds, for GPUs other than Hopper: y = act(w x + bias) for each pixel, in fp16 or bfloat16.
//
// x [n, H, W, C], weights (w, packed: linear/packed.cuh), bias [K], y [n, H, W, K].
//
// Mapping: linear_half/direct.cuh. Bytes: x and the weights from L1 or L2, once for each thread; y once.
#include "conv1x1_half/layer.cuh"

#include "linear_half/direct.cuh"

ENTRY_DIRECT(conv1x1_half_tokens_direct)
