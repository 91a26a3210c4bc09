// transposed_conv2x2 on tensor cores: y = act(transposed conv(x, w) + bias), 2x2 filters at stride 2, in floats.
//
// x [n, C, H, W], filters [2, 2, C, K] and scales [4 K] (w, packed), bias [K], y [n, K, 2 H, 2 W]. No two windows of y overlap: a pixel of x
// makes a square of 2x2 of each plane, by four filters of one tap.
//
// Mapping: many_channels/tensor_core.cuh; a thread stores 8 neighbours of a row of y. Bytes: x once for each 16 filters, from L2; y once.
// What is known of it: docs/kernels/transposed_conv2x2.md.
#define TRANSPOSED
#define ENTRY(variant) transposed_conv2x2_##variant
#define ADDED_PARAMETER
#define ADDED nullptr
#define ADDS false
#include "many_channels/entries.cuh"
