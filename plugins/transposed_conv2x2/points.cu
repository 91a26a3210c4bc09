// transposed_conv2x2 by wgmma, Hopper's own instruction for its tensor cores: y = act(transposed conv(x, w) + bias), 2x2 filters at stride 2, in
// floats.
//
// x [n, C, H, W], filters and scales (four filters of one tap for each plane, packed: many_channels/layer.cuh), bias [K], y [n, K, 2 H, 2 W].
//
// Mapping and bytes: many_channels/points.cuh. What is known of it: docs/kernels/transposed_conv2x2.md.
#define TRANSPOSED
#define ENTRY(variant) transposed_conv2x2_##variant
#define ADDED_PARAMETER
#define ADDED nullptr
#define ADDS false
#include "many_channels/points_entries.cuh"
