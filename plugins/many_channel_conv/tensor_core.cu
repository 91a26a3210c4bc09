// many_channel_conv on tensor cores: y = act(conv(x, w) + bias) from many channels to many, in floats.
//
// x [n, C, H, W], filters and scales (w, packed: many_channels/layer.cuh), bias [K], y [n, K, OH, OW]; stride and padding are the same on all
// sides.
//
// Mapping: many_channels/tensor_core.cuh. Bytes: x once for each tap and each block's filters, from L2 or L1; the filters once for each
// block's pixels, from L2; y once.
// What is known of it: docs/kernels/many_channel_conv.md.
#define ENTRY(variant) many_channel_conv_##variant
#define ADDED_PARAMETER
#define ADDED nullptr
#define ADDS false
#include "many_channels/entries.cuh"
