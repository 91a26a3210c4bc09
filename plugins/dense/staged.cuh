// A tile of a dense layer's sums on tensor cores: x [n, IN] times w [OUT, IN], for float, fp16, bfloat16 and int8; sm_80 and newer.
//
// Mapping: a block has kTileRows rows of x and kTileOut features. kStageBytes of each of these rows of x and w come to shared memory at a
// time, by asynchronous copies, up to kStages - 1 stages ahead. A warp multiplies kWarpRows x kWarpOut of the tile; its operands are
// loaded by ldmatrix, 32 bytes of each row a step: 8 floats, 16 halves, 32 bytes of int8 lie in the lanes in the same way.
// The 16-byte pieces of a row are exchanged among themselves by its number, so that eight rows of a piece lie in 32 different banks.
//
// Floats: x = hi + lo with tf32 hi and lo; x w = lo hi + hi lo + hi hi in three products. The tensor cores cut the bits of a sum instead
// of rounding, so the products of each stage are summed alone, and these sums are added by ordinary additions (split_floats/cut_sums.cuh).
#pragma once

#include "copies.cuh"
#include "dense/instructions.cuh"
#include "split_floats/cut_sums.cuh"

namespace dense {

constexpr int kStageBytes = 128, kStepBytes = 32, kChunkBytes = 16;

template <typename T_, int kIn_, int kOut_, int kTileRows_, int kTileOut_, int kWarpRows_, int kWarpOut_, int kStages_>
struct Tile {
  using T = T_;
  static constexpr int kIn = kIn_, kOut = kOut_, kTileRows = kTileRows_, kTileOut = kTileOut_, kStages = kStages_;
  static constexpr int kWarpRows = kWarpRows_, kWarpOut = kWarpOut_;
  static constexpr int kWarpsAcross = kTileOut / kWarpOut;
  static constexpr int kThreads = 32 * kWarpsAcross * (kTileRows / kWarpRows);
  static constexpr int kRowTiles = kWarpRows / 16, kOutTiles = kWarpOut / 8;
  static constexpr int kRowBytes = kIn * static_cast<int>(sizeof(T));
  static constexpr int kDepth = ceil_div(kRowBytes, kStageBytes);
  static constexpr int kPiece = kRowBytes % 16 == 0 ? 16 : kRowBytes % 8 == 0 ? 8 : 4;  // bytes of a copy
  static constexpr int kTileBytes = (kTileRows + kTileOut) * kStageBytes;
  static constexpr int kSharedBytes = kStages * kTileBytes;
  static_assert(kRowBytes % kPiece == 0, "a row is whole words");
  static_assert(kWarpRows % 16 == 0 && kWarpOut % 16 == 0);
};

template <typename Tile>
using Sums = typename Sum<typename Tile::T>::Type[Tile::kRowTiles][Tile::kOutTiles][4];

// Where piece `chunk` (16 bytes) of row `row` is in a stage.
__device__ __forceinline__ unsigned place(unsigned stage, int row, int chunk) {
  return stage + row * kStageBytes + (chunk ^ (row & 7)) * kChunkBytes;
}

// Begins to copy stage `depth` of `count` rows of a matrix; further rows of the tile, and what lies beyond a row's end, become zero.
template <typename Tile, int kRows>
__device__ __forceinline__ void fetch_rows(unsigned stage, const void* matrix, int count, int depth) {
  constexpr int kAcross = kStageBytes / Tile::kPiece, kPass = Tile::kThreads / kAcross;
  static_assert(Tile::kThreads % kAcross == 0);
  const int byte = threadIdx.x % kAcross * Tile::kPiece, first = threadIdx.x / kAcross;
  const int column = depth * kStageBytes + byte;
  const bool inside = Tile::kRowBytes % kStageBytes == 0 || column < Tile::kRowBytes;
#pragma unroll
  for (int i = 0; i < ceil_div(kRows, kPass); ++i) {
    const int row = first + i * kPass;
    if (kRows % kPass != 0 && row >= kRows) break;
    const bool exists = inside && row < count;
    const char* from = static_cast<const char*>(matrix) + (exists ? row * static_cast<size_t>(Tile::kRowBytes) + column : 0);
    copy_async<Tile::kPiece>(place(stage, row, byte / kChunkBytes) + byte % kChunkBytes, from, exists ? Tile::kPiece : 0);
  }
}

// ---- products ------------------------------------------------------------------------------------------------------------

// hi: the bits that tf32 has; lo: the rest, of which the tensor core takes as many again.
template <int kCount>
__device__ __forceinline__ void split(unsigned (&hi)[kCount], unsigned (&lo)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const unsigned cut = (hi[i] + 0x1000u) & 0xffffe000u;
    lo[i] = __float_as_uint(__fsub_rn(__uint_as_float(hi[i]), __uint_as_float(cut)));
    hi[i] = cut;
  }
}

// One step of a warp: operands of 32 bytes of its rows.
template <typename Tile, typename Value>
__device__ __forceinline__ void multiply_step(Value (&sums)[Tile::kRowTiles][Tile::kOutTiles][4], unsigned x, unsigned w, int row,
                                              int out, int step) {
  const int lane = threadIdx.x % 32, in_matrix = lane % 8, matrix = lane / 8;
  unsigned a[Tile::kRowTiles][4], b[Tile::kOutTiles][2];
#pragma unroll
  for (int i = 0; i < Tile::kRowTiles; ++i) {
    load_matrices(a[i], place(x, row + i * 16 + in_matrix + matrix % 2 * 8, step * 2 + matrix / 2));
  }
#pragma unroll
  for (int j = 0; j < Tile::kOutTiles; j += 2) {
    unsigned words[4];
    load_matrices(words, place(w, out + j * 8 + in_matrix + matrix / 2 * 8, step * 2 + matrix % 2));
    b[j][0] = words[0], b[j][1] = words[1], b[j + 1][0] = words[2], b[j + 1][1] = words[3];
  }
  if constexpr (sizeof(typename Tile::T) == 4) {
    unsigned a_lo[Tile::kRowTiles][4], b_lo[Tile::kOutTiles][2];
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) split(a[i], a_lo[i]);
#pragma unroll
    for (int j = 0; j < Tile::kOutTiles; ++j) split(b[j], b_lo[j]);
    // Independent sums take turns: a product waits for the one before it on the same sum.
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kOutTiles; ++j) multiply<float>(sums[i][j], a_lo[i], b[j]);
    }
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kOutTiles; ++j) multiply<float>(sums[i][j], a[i], b_lo[j]);
    }
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kOutTiles; ++j) multiply<float>(sums[i][j], a[i], b[j]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kOutTiles; ++j) multiply<typename Tile::T>(sums[i][j], a[i], b[j]);
    }
  }
}

// The steps of a stage; the last stage may have fewer.
template <typename Tile, typename Value>
__device__ __forceinline__ void multiply_stage(Value (&sums)[Tile::kRowTiles][Tile::kOutTiles][4], unsigned stage, int row, int out,
                                               bool last) {
  constexpr int kSteps = kStageBytes / kStepBytes, kRest = (Tile::kRowBytes % kStageBytes + kStepBytes - 1) / kStepBytes;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (kRest != 0 && step >= kRest && last) break;
    multiply_step<Tile>(sums, stage, stage + Tile::kTileRows * kStageBytes, row, out, step);
  }
}

// All sums of a warp: rows row ..., features out ... of the block's tile. `x` and `w`: the tile's first rows, of which `rows` and `outs`
// exist; `shared`: the address of kSharedBytes. d[i][j]: as mma.cuh has it, for rows 16 i ... and features 8 j ... .
template <typename Tile>
__device__ __forceinline__ void multiply_tile(Sums<Tile>& sums, unsigned shared, const typename Tile::T* x, const typename Tile::T* w,
                                              int rows, int outs, int row, int out) {
  auto fetch = [&](int depth) {
    const unsigned stage = shared + depth % Tile::kStages * Tile::kTileBytes;
    if (depth < Tile::kDepth) {
      fetch_rows<Tile, Tile::kTileRows>(stage, x, rows, depth);
      fetch_rows<Tile, Tile::kTileOut>(stage + Tile::kTileRows * kStageBytes, w, outs, depth);
    }
    copy_async_commit();
  };
#pragma unroll
  for (int depth = 0; depth < Tile::kStages - 1; ++depth) fetch(depth);
#pragma unroll 1
  for (int depth = 0; depth < Tile::kDepth; ++depth) {
    copy_async_wait<Tile::kStages - 2>();
    __syncthreads();  // the stage has arrived for all, and all have left the one before it
    fetch(depth + Tile::kStages - 1);
    const unsigned stage = shared + depth % Tile::kStages * Tile::kTileBytes;
    const bool last = depth + 1 == Tile::kDepth;
    if constexpr (sizeof(typename Tile::T) == 4) {
      Sums<Tile> part = {};
      multiply_stage<Tile>(part, stage, row, out, last);
#pragma unroll
      for (int i = 0; i < Tile::kRowTiles; ++i) {
#pragma unroll
        for (int j = 0; j < Tile::kOutTiles; ++j) {
#pragma unroll
          for (int k = 0; k < 4; ++k) sums[i][j][k] += part[i][j][k];
        }
      }
    } else {
      multiply_stage<Tile>(sums, stage, row, out, last);
    }
  }
  if constexpr (sizeof(typename Tile::T) == 4) {
    constexpr int kProducts = 3 * ceil_div(smaller(kStageBytes, Tile::kRowBytes), kStepBytes) - 2;  // the first two sums are small
#pragma unroll
    for (int i = 0; i < Tile::kRowTiles * Tile::kOutTiles * 4; ++i) {
      float& sum = sums[i / (Tile::kOutTiles * 4)][i / 4 % Tile::kOutTiles][i % 4];
      sum = with_cut<kProducts>(sum);
    }
  }
}

// ---- results -------------------------------------------------------------------------------------------------------------

// Writes the tile's results, which are `shared` as rows of kTileOut and kResultPad more, to y at the tile's first row and feature.
template <typename Tile, typename Result>
struct Results {
  static constexpr int kSize = static_cast<int>(sizeof(Result));
  static constexpr int kPitch = Tile::kTileOut + kChunkBytes / kSize;  // rows of a warp's store lie in different banks
  static constexpr int kOutBytes = Tile::kOut * kSize;
  static constexpr int kWide = (kOutBytes % 16 == 0 ? 16 : kOutBytes % 8 == 0 ? 8 : kOutBytes % 4 == 0 ? 4 : kSize) / kSize;
  static_assert(Tile::kTileRows * kPitch * kSize <= Tile::kSharedBytes, "results fit where the stages were");

  static __device__ __forceinline__ void write(const Result* shared, Result* y, int rows, int outs) {
    constexpr int kAcross = Tile::kTileOut / kWide;
#pragma unroll 1
    for (int at = threadIdx.x; at < rows * kAcross; at += Tile::kThreads) {
      const int row = at / kAcross, column = at % kAcross * kWide;
      if (column >= outs) continue;
      Result* to = y + static_cast<size_t>(row) * Tile::kOut + column;
      if constexpr (kWide * kSize >= 4) {
        store_vector(to, load_vector<kWide>(shared + row * kPitch + column));
      } else {
        *to = shared[row * kPitch + column];
      }
    }
  }
};

}  // namespace dense
