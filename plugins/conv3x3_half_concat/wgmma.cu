// conv3x3_half_concat by wgmma, Hopper's own instruction for its tensor cores: y = act(conv(concat(x, other), w) + bias), 3x3 filters, in fp16 and
// bfloat16.
//
// x [n, H, W, C], other [n, H, W, D], filters (w, packed: channels_last/layer.cuh), bias [K], y [n, H, W, K]; padding 1.
//
// Mapping: channels_last/by_wgmma.cuh. Bytes: x and other once for a tile's filters, the filters once for its pixels, from L2; y once.
// What is known of it: docs/kernels/conv3x3_half.md.
#define ENTRY(variant) conv3x3_half_concat_##variant
#define OTHER_PARAMETER const T* __restrict__ other,
#define OTHER other
#define ADDS false
#include "channels_last/entries.cuh"
