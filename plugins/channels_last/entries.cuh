// The entries of a 3x3 convolution of channels-last maps by wgmma. A kernel's wgmma.cu defines before it:
//   ENTRY(variant)      the name of an entry
//   OTHER_PARAMETER     the parameter of what is added before the activation, or joined to x, with a comma, or nothing
//   OTHER               its name, or nullptr
//   ADDS                whether it is added
// An entry for each number of blocks that divide the channels.
#pragma once

#include "channels_last/by_wgmma.cuh"

#define BY_WGMMA(...) BY_WGMMA_OF(__VA_ARGS__)
#define BY_WGMMA_OF(entry, cluster, splits)                                                                      \
  ASSERT_LAUNCH(entry, kWgmmaThreads, Plan<splits>::kSharedBytes);                                               \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                         \
      entry(const T* __restrict__ x, OTHER_PARAMETER const T* __restrict__ filters, const T* __restrict__ bias,  \
            int n, T* __restrict__ y MAP_PARAMETERS) {                                                           \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                \
    extern __shared__ __align__(kSwizzleAlign) unsigned char shared[];                                           \
    channels_last_by_wgmma<Plan<splits>, ADDS>(shared, {x, OTHER, filters, bias, n, y MAP_ARGUMENTS});           \
  }
BY_WGMMA(ENTRY(wgmma), , 1)
BY_WGMMA(ENTRY(by2_wgmma), __cluster_dims__(2, 1, 1), 2)
BY_WGMMA(ENTRY(by4_wgmma), __cluster_dims__(4, 1, 1), 4)
BY_WGMMA(ENTRY(by8_wgmma), __cluster_dims__(8, 1, 1), 8)
