// linear by wgmma, Hopper's own instruction for its tensor cores: y = act(x w^T + bias), in floats.
//
// x [n, I], weights and scales (w, packed: layer.cuh), bias [O], y [n, O].
//
// Mapping: split_wgmma.cuh. x comes row by row, 16 bytes a thread.
// What is known of it: docs/kernels/linear.md.
#include "linear/sizes.cuh"

#include "linear/split_wgmma.cuh"

struct Arguments {
  const T* __restrict__ x;
  const __half* __restrict__ weights;
  const T* __restrict__ scales;
  const T* __restrict__ bias;
  const int n;
  T* __restrict__ y;

  __device__ __forceinline__ const T* row(int row) const { return x + static_cast<size_t>(row) * kInputs; }
  __device__ __forceinline__ T* place(int row, int column) const { return y + (static_cast<size_t>(row) * kOutputs + column); }
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&sums)[kCount], int largest, int row, int column) const {
    finish_run(*this, sums, largest, row, column);
  }

  // Begins to copy the rows of x for a stage, 16 bytes a thread.
  template <typename Plan>
  __device__ __forceinline__ void begin_copy(unsigned stages, unsigned stage, int first_row, int step, int thread) const {
    constexpr int kPieces = Plan::kDepth / 4, kRowsAtOnce = kRole / kPieces;
    const int piece = thread % kPieces;
    const unsigned to = stages + thread / kPieces * Plan::kPitch * 4 + piece * 16;
#pragma unroll
    for (int row = 0; row < kTileRows; row += kRowsAtOnce) {
      const int from = first_row + row + thread / kPieces;
      const bool exists = from < n;
      const T* const of_x = this->row(exists ? from : 0) + (step * Plan::kDepth + piece * 4);
      copy_async<16>(to + stage + row * Plan::kPitch * 4, of_x, exists && Plan::has(step, piece * 4) ? 16 : 0);  // none: zeros
    }
  }
};

// An entry for each number of blocks that divide the inputs.
#define BY_WGMMA(entry, cluster, splits)                                                                                                   \
  ASSERT_LAUNCH(entry, kWgmmaThreads, Plan<splits>::kSharedBytes);                                                                         \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                                                   \
      entry(const T* __restrict__ x, const __half* __restrict__ weights, const T* __restrict__ scales, const T* __restrict__ bias, int n, \
            T* __restrict__ y) {                                                                                                           \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                                          \
    extern __shared__ __align__(128) unsigned char shared[];                                                                               \
    dense_by_wgmma<Plan<splits>>(shared, Arguments{x, weights, scales, bias, n, y});                                                       \
  }
BY_WGMMA(linear_wgmma, , 1)
BY_WGMMA(linear_by2_wgmma, __cluster_dims__(2, 1, 1), 2)
BY_WGMMA(linear_by4_wgmma, __cluster_dims__(4, 1, 1), 4)
BY_WGMMA(linear_by8_wgmma, __cluster_dims__(8, 1, 1), 8)
