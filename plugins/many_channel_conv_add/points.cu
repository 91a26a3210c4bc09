// many_channel_conv_add by wgmma, Hopper's own instruction for its tensor cores: y = act(conv(x, w) + bias + other) from many channels to
// many, 1x1 filters, in floats.
//
// x [n, C, H, W], other [n, K, OH, OW], filters and scales (w, packed: many_channels/layer.cuh), bias [K], y [n, K, OH, OW].
//
// Mapping and bytes: many_channels/points.cuh; other once. What is known of it: docs/kernels/many_channel_conv.md.
#define ENTRY(variant) many_channel_conv_add_##variant
#define ADDED_PARAMETER const T* __restrict__ other,
#define ADDED other
#define ADDS true
#include "many_channels/points_entries.cuh"
