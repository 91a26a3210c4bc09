// What a dense layer by wgmma computes at a time, and where it lies in shared memory.
//
// A tile is 128 rows of x, 64 for each of two warpgroups, and up to 128, 192 or 256 outputs, the columns of a product. A ring of stages holds 32
// or 64 inputs each (stages.cuh): x as it is, and the weights as they are packed. Or the weights lie behind the ring: they come with the first
// tile of a block, and stay.
#pragma once

#include "launch_maps.cuh"
#include "linear/packed.cuh"
#include "split_floats/stages.cuh"

constexpr int kTileRows = 128;
// One thread asks for all rows of x of a stage, by a tensor map, and they come swizzled; otherwise 128 threads copy them.
constexpr bool kMapped = LAUNCH_MAPS > 0;
constexpr int kStagesAlign = kMapped ? 1024 : 128;  // a swizzle repeats after 1024 bytes

// Where a tile begins.
struct Place {
  int row, column;
};

// kSplits blocks divide the inputs of a tile. A block with all of them has fewer and larger steps, if it can. kUnit: what divides a tile's columns.
// kWeightsStay: all tiles of a block have the same columns, and one copy of their weights. kStoredBytes: shared memory behind the rest, at kStored,
// for outputs on their way. kSequence: rows of a sequence, where a tile may have rows of one alone; 0: it may have any.
template <int kSplits_, int kMostColumns = 128, int kUnit = 16, bool kWeightsStay_ = false, unsigned kStoredBytes_ = 0, int kSequence = 0>
struct Plan {
  static constexpr int kSplits = kSplits_;
  static constexpr bool kWeightsStay = kWeightsStay_;
  // As few columns as a product can have for this number of tiles.
  static constexpr int kAcross = ceil_div(kOutputs, kMostColumns), kColumns = larger(64, ceil_div(ceil_div(kOutputs, kAcross), kUnit) * kUnit);
  static constexpr bool kFull = kColumns * kAcross == kOutputs;  // all columns of all tiles are outputs
  static constexpr int kTilesDown = ceil_div(kSequence, kTileRows);  // of a sequence
  static constexpr int kSumPitch = kColumns + 8;                 // lanes that store sums at once have different banks
  static constexpr int kChunks = kSplits == 1 && kAllChunks % 2 == 0 ? 2 : 1, kStages = (kMostColumns == 128 ? 6 : 8) / kChunks;
  static constexpr int kDepth = kChunks * kChunk, kSteps = kAllChunks / kChunks;
  // Steps whose weights are copied before the kernel in front has ended; each of the blocks that divide the inputs has as many.
  static constexpr int kAhead = kSplits > 1 ? smaller(kStages, kSteps / kSplits) : 0;
  // Of a row of x: threads that use neighbouring ones have different banks. Rows by a map need no padding; its room stays, so that
  // both are launched with the same shared memory.
  static constexpr int kPaddedPitch = kDepth + 8, kPitch = kMapped ? kDepth : kPaddedPitch;
  // Bytes: x, and the weights of a chunk, hi or lo, and of a step; then a stage.
  static constexpr unsigned kXBytes = kTileRows * kPaddedPitch * sizeof(T), kWeightBytes = kColumns / kEight * kOfEight * 2;
  static constexpr unsigned kStepBytes = kChunks * kParts * kWeightBytes, kStageBytes = kXBytes + (kWeightsStay ? 0 : kStepBytes);
  static constexpr unsigned kStagesEnd = kStages * (kStageBytes + 16 /* barriers */);
  static constexpr unsigned kStored = kStagesEnd + (kWeightsStay ? kSteps * kStepBytes : 0), kSharedBytes = kStored + kStoredBytes_;
  // Sums of a tile can take the stages' place.
  static_assert(kWeightsStay ? kSplits == 1 : kTileRows * kSumPitch * 4 <= kStages * kStageBytes);
  static_assert(!kMapped || kStageBytes % kStagesAlign == 0);

  // Where the weights of a step are, if its stage is at `stage`.
  static __device__ __forceinline__ unsigned weights_at(unsigned stage, int step) {
    return kWeightsStay ? kStagesEnd + step * kStepBytes : stage + kXBytes;
  }

  // Whether x has this input of a step; the last chunk may have fewer than it has room for.
  static __device__ __forceinline__ bool has(int step, int input) { return kInputs % kChunk == 0 || step * kDepth + input < kInputs; }
  // The number of tiles, and where one is.
  static __device__ __forceinline__ int tiles(int n) {
    if constexpr (kSequence > 0) return n / kSequence * kTilesDown * kAcross;
    return ceil_div(n, kTileRows) * kAcross;
  }
  static __device__ __forceinline__ Place place(int tile) {
    const int down = tile / kAcross, column = tile % kAcross * kColumns;
    if constexpr (kSequence > 0) return {down / kTilesDown * kSequence + down % kTilesDown * kTileRows, column};
    return {down * kTileRows, column};
  }
  // The first of n rows that is none of the tile that begins at this row.
  static __device__ __forceinline__ int end(int row, int n) {
    if constexpr (kSequence > 0) return smaller((row / kSequence + 1) * kSequence, n);
    return n;
  }
};

// The stages, which two warpgroups read.
template <typename Plan>
using Ring = Stages<Plan, 2 * kRole / 32, kMapped ? 1 : kRole + 1>;

// The steps and the tiles of a block.
template <typename Plan>
struct Share {
  const int rank = blockIdx.x % Plan::kSplits, first = Plan::kSteps * rank / Plan::kSplits, last = Plan::kSteps * (rank + 1) / Plan::kSplits;
  int tile = blockIdx.x / Plan::kSplits;
  __device__ __forceinline__ void advance() { tile += gridDim.x / Plan::kSplits; }
};
