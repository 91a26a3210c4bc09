// linear_half by wgmma, Hopper's own instruction for its tensor cores: y = act(x w^T + bias), in fp16 or bfloat16.
//
// x [n, I], weights (w, packed: linear/packed.cuh), bias [O], y [n, O].
//
// Mapping: linear_half/by_wgmma.cuh. Wide tiles, of up to 256 or 192 outputs, read x less often; narrow ones, of up to 128, are for few rows.
// What is known of it: docs/kernels/linear.md.
#include "linear_half/layer.cuh"

#include "linear_half/by_wgmma.cuh"

// An entry for each width of tiles, and for the narrow ones by each number of blocks that divide the inputs.
#define BY_WGMMA(entry, cluster, columns, splits)                                                                            \
  ASSERT_LAUNCH(entry, kWgmmaThreads, (Plan<splits, columns>::kSharedBytes));                                                \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                                     \
      entry(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int n, T* __restrict__ y) {  \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                            \
    wait_for_previous_kernel();                                                                                              \
    extern __shared__ __align__(128) unsigned char shared[];                                                                 \
    dense_by_wgmma<Plan<splits, columns>>(shared, Tiled<Layer>{{{x, weights, bias, n, y}}});                                 \
  }
BY_WGMMA(linear_half_wide_wgmma, , 256, 1)
BY_WGMMA(linear_half_less_wide_wgmma, , 192, 1)
BY_WGMMA(linear_half_wgmma, , 128, 1)
BY_WGMMA(linear_half_by2_wgmma, __cluster_dims__(2, 1, 1), 128, 2)
BY_WGMMA(linear_half_by4_wgmma, __cluster_dims__(4, 1, 1), 128, 4)
BY_WGMMA(linear_half_by8_wgmma, __cluster_dims__(8, 1, 1), 128, 8)
