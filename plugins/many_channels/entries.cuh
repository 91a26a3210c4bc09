// The entries of a convolution of many channels on tensor cores. A kernel's tensor_core.cu defines before it:
//   ENTRY(variant)     the name of an entry
//   ADDED_PARAMETER    the parameter of what is added before the activation, with a comma, or nothing
//   ADDED              its name, or nullptr
//   ADDS               whether there is one
// An entry for each size of tile and number of blocks that divide K.
#pragma once

#include "many_channels/tensor_core.cuh"

// A second macro, so that `entry` is a name where it is made a string.
#define BY_MMA(...) BY_MMA_OF(__VA_ARGS__)
#define BY_MMA_OF(entry, cluster, pixels, block_filters, warp_pixels, ahead, splits)                                              \
  ASSERT_LAUNCH(entry, (Tile<pixels, block_filters, warp_pixels, ahead, splits>::kThreads),                                       \
                (Tile<pixels, block_filters, warp_pixels, ahead, splits>::kSharedBytes));                                         \
  extern "C" __global__ void cluster __launch_bounds__((pixels) / (warp_pixels) * (block_filters), 2)                             \
      entry(const T* __restrict__ x, ADDED_PARAMETER const __half* __restrict__ filters, const T* __restrict__ scales,                 \
            const T* __restrict__ bias, int n, T* __restrict__ y) {                                                               \
    if constexpr (!is_launched(#entry)) return;  /* the others are compiled with other variants */                                \
    wait_for_previous_kernel();                                                                                                   \
    extern __shared__ __align__(16) unsigned char shared[];                                                                       \
    many_channels_by_mma<Tile<pixels, block_filters, warp_pixels, ahead, splits>, ADDS>(shared, x, ADDED, filters, scales, bias,  \
                                                                                        n, y);                                    \
  }
BY_MMA(ENTRY(tile_128x64), , 128, 64, 64, 1, 1)
BY_MMA(ENTRY(tile_64x64), , 64, 64, 32, 2, 1)
#if __CUDA_ARCH__ >= 900
BY_MMA(ENTRY(by2), __cluster_dims__(2, 1, 1), 64, 64, 32, 2, 2)
BY_MMA(ENTRY(by4), __cluster_dims__(4, 1, 1), 64, 64, 32, 2, 4)
BY_MMA(ENTRY(by8), __cluster_dims__(8, 1, 1), 64, 64, 32, 2, 8)
#endif
