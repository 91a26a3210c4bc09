// many_channel_conv_add on tensor cores: y = act(conv(x, w) + bias + other) from many channels to many, in floats.
//
// x [n, C, H, W], other [n, K, OH, OW], filters [R, R, C, K] (w, packed), bias [K], y [n, K, OH, OW];
// stride and padding are the same on all sides.
//
// Mapping: many_channels/tensor_core.cuh; an entry for each size of tile. Bytes: x once for each tap and each block's filters, from L2 or
// L1; the filters once for each block's pixels, from L2; other and y once.
// What is known of it: docs/kernels/many_channel_conv.md.
#include "many_channels/tensor_core.cuh"

#define BY_MMA(entry, pixels, out, warp_pixels, stages, blocks)                                                                   \
  ASSERT_LAUNCH(entry, 32 * ((pixels) / (warp_pixels)) * ((out) / 32), (Tile<pixels, out, warp_pixels, stages>::kSharedBytes));   \
  extern "C" __global__ void __launch_bounds__(32 * ((pixels) / (warp_pixels)) * ((out) / 32), blocks)                            \
      entry(const T* __restrict__ x, const T* __restrict__ other, const T* __restrict__ filters,                                  \
            const T* __restrict__ bias, int n, T* __restrict__ y) {                                                               \
    if constexpr (!is_launched(#entry)) return;  /* the others are compiled with other variants */                                \
    extern __shared__ __align__(16) unsigned char shared[];                                                                       \
    many_channels_by_mma<Tile<pixels, out, warp_pixels, stages>, true>(shared, x, other, filters, bias, n, y);                    \
  }
BY_MMA(many_channel_conv_add_tile_128x128, 128, 128, 64, 4, 1)
BY_MMA(many_channel_conv_add_tile_128x64, 128, 64, 32, 4, 2)
BY_MMA(many_channel_conv_add_tile_64x64, 64, 64, 32, 4, 4)
