// The entries of dense layers by wgmma in fp16 and bfloat16.
#pragma once

#include "linear_half/by_wgmma.cuh"
#include "linear_half/stored_rows.cuh"

// Blocks that divide the inputs have another end than stored_rows.cuh.
template <typename Arguments, int kMostColumns, int kSplits>
using OutputPlan = Plan<kSplits, kMostColumns, 16, false, kSplits == 1 ? kTileRows / 16 * kStoredBytes : 0, Arguments::kSequence>;

// An entry for each width of tiles, and for the narrow ones by each number of blocks that divide the inputs: those of Product.wide() and narrow()
// in linear/declaration.py. `Arguments` begins with Outputs; it has begin_copy, or ends with the map and has begin_box.
#define ENTRIES_BY_WGMMA(kernel, Arguments)                                                    \
  ENTRY_BY_WGMMA(kernel##_wide_wgmma, Arguments, , 256, 1)                                     \
  ENTRY_BY_WGMMA(kernel##_less_wide_wgmma, Arguments, , 192, 1)                                \
  ENTRY_BY_WGMMA(kernel##_wgmma, Arguments, , 128, 1)                                          \
  ENTRY_BY_WGMMA(kernel##_by2_wgmma, Arguments, __cluster_dims__(2, 1, 1), 128, 2)             \
  ENTRY_BY_WGMMA(kernel##_by4_wgmma, Arguments, __cluster_dims__(4, 1, 1), 128, 4)             \
  ENTRY_BY_WGMMA(kernel##_by8_wgmma, Arguments, __cluster_dims__(8, 1, 1), 128, 8)
#define ENTRY_BY_WGMMA(entry, Arguments, cluster, columns, splits)                                                                          \
  ASSERT_LAUNCH(entry, kWgmmaThreads, (OutputPlan<Arguments, columns, splits>::kSharedBytes));                                              \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                                                    \
      entry(const T* __restrict__ x OTHER_PARAMETER, const T* __restrict__ weights, const T* __restrict__ bias, int rows TOKENS_PARAMETER, T* __restrict__ y \
            MAP_PARAMETERS) {                                                                                                               \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                                           \
    extern __shared__ __align__(kStagesAlign) unsigned char shared[];                                                                       \
    dense_by_wgmma<OutputPlan<Arguments, columns, splits>>(shared, Arguments{x, weights, bias, rows, y OTHER_ARGUMENT MAP_ARGUMENTS});      \
  }
