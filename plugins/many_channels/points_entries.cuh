// The entries of a convolution of many channels by points.cuh; a kernel's points.cu defines before it what entries.cuh wants.
#pragma once

#include "many_channels/points.cuh"

#define BY_POINTS(...) BY_POINTS_OF(__VA_ARGS__)
#define BY_POINTS_OF(entry, groups)                                                                                        \
  ASSERT_LAUNCH(entry, Points<groups>::kThreads, Points<groups>::kSharedBytes);                                            \
  extern "C" __global__ void __launch_bounds__(Points<groups>::kThreads, 1)                                                \
      entry(const T* __restrict__ x, ADDED_PARAMETER const __half* __restrict__ filters, const T* __restrict__ scales,     \
            const T* __restrict__ bias, int n, T* __restrict__ y) {                                                        \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                          \
    wait_for_previous_kernel();                                                                                            \
    extern __shared__ __align__(128) unsigned char shared[];                                                               \
    many_channels_by_points<Points<groups>, ADDS>(shared, {x, ADDED, filters, scales, bias, n, y});                        \
  }
BY_POINTS(ENTRY(points_wgmma), 2)
BY_POINTS(ENTRY(few_points_wgmma), 1)
