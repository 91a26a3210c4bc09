// conv3x3_half_add by wgmma, Hopper's own instruction for its tensor cores: y = act(conv(x, w) + bias + other), 3x3 filters, in fp16 and bfloat16.
//
// x [n, H, W, C], other [n, H, W, K], filters (w, packed: channels_last/layer.cuh), bias [K], y [n, H, W, K]; padding 1.
//
// Mapping: channels_last/by_wgmma.cuh. Bytes: x once for a tile's filters, the filters once for its pixels, from L2; other and y once.
// What is known of it: docs/kernels/conv3x3_half.md.
#define ENTRY(variant) conv3x3_half_add_##variant
#define OTHER_PARAMETER const T* __restrict__ other,
#define OTHER other
#define ADDS true
#include "channels_last/entries.cuh"
