// patch_embedding by wgmma, Hopper's own instruction for its tensor cores: y = w x + bias for each patch x of an image, in floats.
//
// x [n, C, H, W], weights and scales (w, packed: linear/layer.cuh), bias [K], y [n, H / P, W / P, K].
//
// Mapping: linear/split_wgmma.cuh, whose rows are patches (tiled_patches.cuh).
// Bytes: x once for each tile across the outputs, in pieces of at least 16 bytes, and the weights once for each 128 patches, from L2; y once.
// What is known of it: docs/kernels/patch_embedding.md.
#include "patch_embedding/tiled_patches.cuh"

#include "linear/split_wgmma.cuh"

struct Arguments {
  const T* __restrict__ x;
  const __half* __restrict__ weights;
  const T* __restrict__ scales;
  const T* __restrict__ bias;
  const int n;  // patches
  T* __restrict__ y;

  __device__ __forceinline__ Patch row(int row) const { return patch_of(x, row); }
  __device__ __forceinline__ T* place(int row, int column) const { return y + (static_cast<size_t>(row) * kOutputs + column); }
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&sums)[kCount], int largest, int row, int column) const {
    finish_run(*this, sums, largest, row, column);
  }
};

// An entry for each number of blocks that divide the inputs.
#define BY_WGMMA(entry, cluster, splits)                                                                                                \
  ASSERT_LAUNCH(entry, kWgmmaThreads, Plan<splits>::kSharedBytes);                                                                      \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                                                \
      entry(const T* __restrict__ x, const __half* __restrict__ weights, const T* __restrict__ scales, const T* __restrict__ bias,     \
            int patches, T* __restrict__ y) {                                                                                          \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                                       \
    extern __shared__ __align__(128) unsigned char shared[];                                                                            \
    dense_by_wgmma<Plan<splits>>(shared, TiledPatches<Arguments>{{x, weights, scales, bias, patches, y}});                              \
  }
BY_WGMMA(patch_embedding_wgmma, , 1)
BY_WGMMA(patch_embedding_by2_wgmma, __cluster_dims__(2, 1, 1), 2)
BY_WGMMA(patch_embedding_by4_wgmma, __cluster_dims__(4, 1, 1), 4)
BY_WGMMA(patch_embedding_by8_wgmma, __cluster_dims__(8, 1, 1), 8)
