// pointwise_conv on tensor cores: y = act(Conv(x, w, bias)), 1x1 filters, in fp16 or bfloat16.
//
// x [n, C, H, W], weights (w, packed: pointwise/layer.cuh), bias [K], y [n, K, H, W].
//
// Mapping and bytes: pointwise/tensor_core.cuh. What is known of it: docs/kernels/pointwise_conv.md.
#define ENTRY(variant) pointwise_conv_##variant
#define OTHER_PARAMETER
#define OTHER nullptr
#define ADDS false
#include "pointwise/tile_entries.cuh"
