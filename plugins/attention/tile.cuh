// The tiles that attention computes on tensor cores, where they lie in shared memory, and their operands there.
#pragma once

#include "attention/layer.cuh"
#include "copies.cuh"
#include "dense/instructions.cuh"

constexpr int kKeys = kDepth < 112 ? kMostKeys : 32;  // at a time; the source file says how many are the most
constexpr int kPitch = kDepth + 8;             // of a row in shared memory: rows that ldmatrix reads at once have different banks
constexpr int kPart = kKeys * kPitch;          // numbers of 16 bits: of keys or values, which have two parts each
constexpr int kSteps = kDepth / 16;            // products of a score
static_assert(kDepth % 16 == 0);

// Threads that bring operands and multiply them together: a block, or each warp of a block for itself.
template <int kThreads_>
struct BlockTeam {
  static constexpr int kThreads = kThreads_;
  static __device__ __forceinline__ int thread() { return threadIdx.x; }
  static __device__ __forceinline__ void wait() { __syncthreads(); }
};
struct WarpTeam {
  static constexpr int kThreads = 32;
  static __device__ __forceinline__ int thread() { return threadIdx.x % 32; }
  static __device__ __forceinline__ void wait() { __syncwarp(); }
};

// How the queries, keys and values are held in shared memory and multiplied: split_operands.cuh, half_operands.cuh.
template <typename T, typename Team, typename Rows>
struct Operands;

template <typename Team>
struct Tile {
  static constexpr int kRows = Team::kThreads / 32 * 16, kQueries = kRows * kPitch;  // numbers of 16 bits
  static constexpr int kKeysBytes = 2 * kPart * 2;                                   // and of the values after them; then come the queries
  static constexpr int kSharedBytes = 2 * kKeysBytes + kQueries * static_cast<int>(sizeof(T));
  static constexpr int kBlocks = Operands<T, Team, EvenRows>::kBlocks;
};

// Where this lane's row of the left operand of a product lies that ldmatrix loads, after the first row of the team, in bytes.
template <typename Team>
__device__ __forceinline__ unsigned row_of_warp(int step) {
  const int lane = threadIdx.x % 32;
  return ((Team::thread() / 32 * 16 + lane % 16) * kPitch + lane / 16 * 8 + step * 16) * 2;
}

// Right operands of kCount products: two of them from 16 rows and 16 columns at each `address`, kNext bytes further each.
template <int kCount, bool kTransposed, int kNext>
__device__ __forceinline__ void load_operands(unsigned (&b)[kCount][2], unsigned address) {
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    unsigned m[4];
    load_matrices<kTransposed>(m, address + i / 2 * kNext);
    b[i][0] = m[0], b[i][1] = m[1], b[i + 1][0] = m[2], b[i + 1][1] = m[3];
  }
}
