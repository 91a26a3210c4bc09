// many_channel_conv_add on tensor cores: y = act(conv(x, w) + bias + other) from many channels to many, in floats.
//
// x [n, C, H, W], other [n, K, OH, OW], filters and scales (w, packed: many_channels/layer.cuh), bias [K], y [n, K, OH, OW];
// stride and padding are the same on all sides.
//
// Mapping: many_channels/tensor_core.cuh. Bytes: x once for each tap and each block's filters, from L2 or L1; the filters once for each
// block's pixels, from L2; other and y once.
// What is known of it: docs/kernels/many_channel_conv.md.
#define ENTRY(variant) many_channel_conv_add_##variant
#define ADDED_PARAMETER const T* __restrict__ other,
#define ADDED other
#define ADDS true
#include "many_channels/entries.cuh"
