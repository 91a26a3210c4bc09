// conv1d_half by wgmma, Hopper's own instruction for its tensor cores: y = act(conv(x, w) + bias) along one axis, in fp16 or bfloat16.
//
// x [n, W, C], weights (w, packed: conv1d_half/layer.cuh), bias [K], y [n, OW, K].
//
// Mapping: linear_half/by_wgmma.cuh, whose rows are positions of sequences (conv1d_half/sequences.cuh).
// Bytes: x once for each tap and each tile across the outputs, and the weights once for each 128 rows, from L2; y once.
// What is known of it: docs/kernels/conv1d_half.md.
#include "conv1d_half/sequences.cuh"

ENTRIES_BY_WGMMA(conv1d_half, Sequences)
