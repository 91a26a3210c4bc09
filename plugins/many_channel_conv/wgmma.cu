// many_channel_conv by wgmma, Hopper's own instruction for its tensor cores: y = act(conv(x, w) + bias) from many channels to many, 3x3
// filters, in floats.
//
// x [n, C, H, W], filters [3, 3, C, K] and scales [K] (w, packed), bias [K], y [n, K, OH, OW]; stride 1 or 2, padding 1.
//
// Mapping: many_channels/by_wgmma.cuh. Bytes: x once for a tile's filters, the filters once for its pixels, from L2; y once.
// What is known of it: docs/kernels/many_channel_conv.md.
#define ENTRY(variant) many_channel_conv_##variant
#define ADDED_PARAMETER
#define ADDED nullptr
#define ADDS false
#include "many_channels/wgmma_entries.cuh"
