// many_channel_conv1d by wgmma, Hopper's own instruction for its tensor cores: y = act(conv(x, w) + bias) along one axis, from many channels to
// many, in floats.
//
// x [n, C, W], filters and scales (w, packed: many_channels/layer.cuh), bias [K], y [n, K, OW]; neighbouring taps are a dilation apart; stride 1.
//
// Mapping: many_channels/by_wgmma.cuh. Bytes: x once for a tile's filters, the filters once for its pixels, from L2; y once.
// What is known of it: docs/kernels/many_channel_conv.md.
#define ENTRY(variant) many_channel_conv1d_##variant
#define ADDED_PARAMETER
#define ADDED nullptr
#define ADDS false
#include "many_channels/wgmma_entries.cuh"
