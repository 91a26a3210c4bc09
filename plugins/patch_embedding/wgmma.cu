// patch_embedding by wgmma, Hopper's own instruction for its tensor cores: y = w x + bias for each patch x of an image, in floats.
//
// x [n, C, H, W], weights and scales (w, packed: linear/layer.cuh), bias [K], y [n, H / P, W / P, K].
//
// Mapping: linear/split_wgmma.cuh, whose rows are patches. 16 bytes of a patch lie together: a thread copies them at a time. A lane of a warp
// that copies knows where one of the 32 patches begins whose pieces the warp copies.
// Bytes: x once for each tile across the outputs, in pieces of at least 16 bytes, and the weights once for each 128 patches, from L2; y once.
// What is known of it: docs/kernels/patch_embedding.md.
#include "patch_embedding/patches.cuh"

#include "linear/split_wgmma.cuh"

constexpr int kLanes = 32;  // of a warp

struct Arguments {
  const T* __restrict__ x;
  const __half* __restrict__ weights;
  const T* __restrict__ scales;
  const T* __restrict__ bias;
  const int n;  // patches
  T* __restrict__ y;
  // Of a thread that copies: the first row of the tile that it knows, and where one patch of it begins; -1: there is none.
  int known = -1, begin = -1;

  __device__ __forceinline__ Patch row(int row) const { return patch_of(x, row); }
  __device__ __forceinline__ T* place(int row, int column) const { return y + (static_cast<size_t>(row) * kOutputs + column); }
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&sums)[kCount], int largest, int row, int column) const {
    finish_run(*this, sums, largest, row, column);
  }

  // Begins to copy the patches for a stage, 16 bytes a thread.
  template <typename Plan>
  __device__ __forceinline__ void begin_copy(unsigned stages, unsigned stage, int first_row, int step, int thread) {
    constexpr int kPieces = Plan::kDepth / kRun, kOfWarp = kLanes / kPieces, kRowsAtOnce = kRole / kPieces;  // rows of a warp, of all warps
    static_assert(kTileRows / kRowsAtOnce * kOfWarp == kLanes);
    const int lane = thread % kLanes, piece = thread % kPieces, input = step * Plan::kDepth + piece * kRun;
    if (first_row != known) {
      known = first_row;
      const int mine = first_row + lane / kOfWarp * kRowsAtOnce + thread / kLanes * kOfWarp + lane % kOfWarp;
      begin = mine < n ? first_of_patch(mine) : -1;
    }
    const T* const of_input = x + within_patch(input);
    const unsigned to = stages + thread / kPieces * Plan::kPitch * 4 + piece * 16;
#pragma unroll
    for (int i = 0; i < kTileRows / kRowsAtOnce; ++i) {
      const int from = __shfl_sync(kAllLanes, begin, i * kOfWarp + lane / kPieces);
      const bool exists = from >= 0 && Plan::has(step, piece * kRun);
      copy_async<16>(to + stage + i * kRowsAtOnce * Plan::kPitch * 4, exists ? of_input + from : x, exists ? 16 : 0);  // none: zeros
    }
  }
};

// An entry for each number of blocks that divide the inputs.
#define BY_WGMMA(entry, cluster, splits)                                                                                                \
  ASSERT_LAUNCH(entry, kWgmmaThreads, Plan<splits>::kSharedBytes);                                                                      \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                                                \
      entry(const T* __restrict__ x, const __half* __restrict__ weights, const T* __restrict__ scales, const T* __restrict__ bias,     \
            int patches, T* __restrict__ y) {                                                                                          \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                                       \
    wait_for_previous_kernel();                                                                                                         \
    extern __shared__ __align__(128) unsigned char shared[];                                                                            \
    dense_by_wgmma<Plan<splits>>(shared, Arguments{x, weights, scales, bias, patches, y});                                              \
  }
BY_WGMMA(patch_embedding_wgmma, , 1)
BY_WGMMA(patch_embedding_by2_wgmma, __cluster_dims__(2, 1, 1), 2)
BY_WGMMA(patch_embedding_by4_wgmma, __cluster_dims__(4, 1, 1), 4)
BY_WGMMA(patch_embedding_by8_wgmma, __cluster_dims__(8, 1, 1), 8)
