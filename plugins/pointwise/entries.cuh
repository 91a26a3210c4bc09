// The entries of a pointwise convolution. A kernel's sources define before it:
//   ENTRY(variant)     the name of an entry
//   OTHER_PARAMETER    the parameter of what is added before the activation, with a comma, or nothing
//   OTHER              its name, or nullptr
//   ADDS               whether there is one
#pragma once

#include "pointwise/layer.cuh"

// An entry whose body takes the tile `shape`<numbers>. A second macro, so that `entry` is a name where it is made a string.
#define POINTWISE(...) POINTWISE_OF(__VA_ARGS__)
#define POINTWISE_OF(entry, body, shape, ...)                                                                            \
  ASSERT_LAUNCH(entry, (shape<__VA_ARGS__>::kThreads), (shape<__VA_ARGS__>::kSharedBytes));                              \
  extern "C" __global__ void __launch_bounds__((shape<__VA_ARGS__>::kThreads))                                           \
      entry(const T* __restrict__ x, OTHER_PARAMETER const T* __restrict__ weights, const T* __restrict__ bias, int n,   \
            T* __restrict__ y) {                                                                                         \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                        \
    wait_for_previous_kernel();                                                                                          \
    extern __shared__ __align__(16) unsigned char shared[];                                                              \
    body<shape<__VA_ARGS__>, ADDS>(shared, {x, OTHER, weights, bias, n, y});                                             \
  }
