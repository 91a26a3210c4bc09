// many_channel_conv_add on tensor cores: y = act(conv(x, w) + bias + other) from many channels to many, in floats.
//
// x [n, C, H, W], other [n, K, OH, OW], filters [R, R, C, K] and scales [K] (w, packed), bias [K], y [n, K, OH, OW];
// stride and padding are the same on all sides.
//
// Mapping: many_channels/tensor_core.cuh; an entry for each size of tile and number of blocks that divide K. Bytes: x once for each tap and each block's filters, from L2 or
// L1; the filters once for each block's pixels, from L2; other and y once.
// What is known of it: docs/kernels/many_channel_conv.md.
#include "many_channels/tensor_core.cuh"

#define BY_MMA(entry, cluster, pixels, block_filters, warp_pixels, ahead, splits, blocks)                                        \
  ASSERT_LAUNCH(entry, (Tile<pixels, block_filters, warp_pixels, ahead, splits>::kThreads),                                      \
                (Tile<pixels, block_filters, warp_pixels, ahead, splits>::kSharedBytes));                                        \
  extern "C" __global__ void cluster __launch_bounds__((pixels) / (warp_pixels) * (block_filters), blocks)                        \
      entry(const T* __restrict__ x, const T* __restrict__ other, const T* __restrict__ filters, const T* __restrict__ scales,                            \
            const T* __restrict__ bias, int n, T* __restrict__ y) {                                                               \
    if constexpr (!is_launched(#entry)) return;  /* the others are compiled with other variants */                                \
    extern __shared__ __align__(16) unsigned char shared[];                                                                       \
    many_channels_by_mma<Tile<pixels, block_filters, warp_pixels, ahead, splits>, true>(shared, x, other, filters, scales, bias, \
                                                                                            n, y);                                \
  }
BY_MMA(many_channel_conv_add_tile_128x64, , 128, 64, 64, 1, 1, 2)
BY_MMA(many_channel_conv_add_tile_64x64, , 64, 64, 32, 2, 1, 2)
#if __CUDA_ARCH__ >= 900
BY_MMA(many_channel_conv_add_by2, __cluster_dims__(2, 1, 1), 64, 64, 32, 2, 2, 2)
BY_MMA(many_channel_conv_add_by4, __cluster_dims__(4, 1, 1), 64, 64, 32, 2, 4, 2)
BY_MMA(many_channel_conv_add_by8, __cluster_dims__(8, 1, 1), 64, 64, 32, 2, 8, 2)
#endif
