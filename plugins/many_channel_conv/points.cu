// many_channel_conv by wgmma, Hopper's own instruction for its tensor cores: y = act(conv(x, w) + bias) from many channels to many, 1x1
// filters, in floats.
//
// x [n, C, H, W], filters and scales (w, packed: many_channels/layer.cuh), bias [K], y [n, K, OH, OW].
//
// Mapping and bytes: many_channels/points.cuh. What is known of it: docs/kernels/many_channel_conv.md.
#define ENTRY(variant) many_channel_conv_##variant
#define ADDED_PARAMETER
#define ADDED nullptr
#define ADDS false
#include "many_channels/points_entries.cuh"
