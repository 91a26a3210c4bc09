// many_channel_conv_add by wgmma, Hopper's own instruction for its tensor cores: y = act(conv(x, w) + bias + other) from many channels to
// many, 3x3 filters, in floats.
//
// x [n, C, H, W], other [n, K, OH, OW], filters [3, 3, C, K] and scales [K] (w, packed), bias [K], y [n, K, OH, OW]; stride 1 or 2,
// padding 1.
//
// Mapping: many_channels/by_wgmma.cuh. Bytes: x once for a tile's filters, the filters once for its pixels, from L2; other and y once.
// What is known of it: docs/kernels/many_channel_conv.md.
#define ENTRY(variant) many_channel_conv_add_##variant
#define ADDED_PARAMETER const T* __restrict__ other,
#define ADDED other
#define ADDS true
#include "many_channels/wgmma_entries.cuh"
