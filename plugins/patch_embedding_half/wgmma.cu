// patch_embedding_half by wgmma, Hopper's own instruction for its tensor cores: y = w x + bias for each patch x of an image, in fp16 or bfloat16.
//
// x [n, C, H, W], weights (w, packed: linear/packed.cuh), bias [K], y [n, H / P, W / P, K].
//
// Mapping: linear_half/by_wgmma.cuh, whose rows are patches (patch_embedding/tiled_patches.cuh). Wide tiles, of up to 256 or 192
// outputs, read x less often; narrow ones, of up to 128, are for few patches.
// Bytes: x once for each tile across the outputs, in pieces of 8 or 16 bytes, and the weights once for each 128 patches, from L2; y once.
// What is known of it: docs/kernels/patch_embedding.md.
#include "patch_embedding/tiled_patches.cuh"

#include "linear_half/by_wgmma.cuh"
#include "linear_half/outputs.cuh"

// An entry for each width of tiles, and for the narrow ones by each number of blocks that divide the inputs.
#define BY_WGMMA(entry, cluster, columns, splits)                                                                                  \
  ASSERT_LAUNCH(entry, kWgmmaThreads, (Plan<splits, columns>::kSharedBytes));                                                      \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                                           \
      entry(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int patches, T* __restrict__ y) {  \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                                  \
    wait_for_previous_kernel();                                                                                                    \
    extern __shared__ __align__(128) unsigned char shared[];                                                                       \
    dense_by_wgmma<Plan<splits, columns>>(shared, TiledPatches<Outputs>{{x, weights, bias, patches, y}});                          \
  }
BY_WGMMA(patch_embedding_half_wide_wgmma, , 256, 1)
BY_WGMMA(patch_embedding_half_less_wide_wgmma, , 192, 1)
BY_WGMMA(patch_embedding_half_wgmma, , 128, 1)
BY_WGMMA(patch_embedding_half_by2_wgmma, __cluster_dims__(2, 1, 1), 128, 2)
BY_WGMMA(patch_embedding_half_by4_wgmma, __cluster_dims__(4, 1, 1), 128, 4)
BY_WGMMA(patch_embedding_half_by8_wgmma, __cluster_dims__(8, 1, 1), 128, 8)
