// Tiles of depthwise_layer_norm on tensor cores: 8 columns of an image, and pairs of rows.
//
// Shared memory, for a block: stages of x of its tiles, the weights of its channels, and for each tile what norm.cuh keeps. x has 16 columns for a
// tile, in boxes of 16 channels: a pixel of a box has two units of 8, swizzled.
#pragma once

#include "bulk.cuh"
#include "copies.cuh"
#include "depthwise_layer_norm/layer.cuh"

constexpr int kColumns = 8, kReadColumns = 16;
constexpr int kPairsOfImage = ceil_div(kHeight, 2), kTilesDown = ceil_div(kPairsOfImage, 8), kTilesAcross = ceil_div(kWidth, kColumns);
constexpr int kTilesOfImage = kTilesDown * kTilesAcross;
constexpr int kPairs = ceil_div(kPairsOfImage, kTilesDown), kRows = 2 * kPairs, kReadRows = kRows + kSize - 1;
constexpr int kPixelBytes = 32, kRowBytes = kReadColumns * kPixelBytes, kBoxBytes = kReadRows * kRowBytes;  // of a box
constexpr int kSwizzleAlign = 256;
// Of a tile's pixels, column by column, what the norm keeps: lanes that write four rows of eight columns meet no bank twice.
constexpr int kColumnPitch = 18, kPixels = kColumns * kColumnPitch;

// The warps of blocks, as the variants declare them.
__host__ __device__ constexpr bool is_written_for(int threads) {
  return threads == 5 * 32 || threads == 6 * 32 || threads == 12 * 32 || threads == 16 * 32;
}

// A block, of kBlocks that share the channels of their tiles. It has kTiles at a time; a block with all channels has some after each other, and x of
// the next ones arrives while it computes.
template <int kBlocks_>
struct Plan {
  static constexpr int kBlocks = kBlocks_, kOwn = ceil_div(kGroups, kBlocks);         // groups of eight channels, of a block: one for each warp
  static constexpr int kTiles = LAUNCH_THREADS / (32 * kOwn), kThreads = 32 * kOwn;  // of a tile; warps that are left do nothing
  static constexpr int kStages = kBlocks == 1 ? 2 : 1;                               // of x
  static constexpr int kBoxes = ceil_div(kOwn, 2), kXBytes = kBoxes * kBoxBytes, kStageBytes = kTiles * kXBytes;
  static constexpr int kFilterBytes = kOwn * kGroupTaps * 2, kVectorBytes = kOwn * 16;  // of filters; of biases, scales or shifts
  // Of a tile: mean and squared distances of each group and, in a cluster, of each block; in place of the first ones, what all channels have.
  static constexpr int kParts = kOwn + (kBlocks > 1 ? kBlocks : 0), kNormBytes = kParts * kPixels * 8;
  static constexpr int kFiltersAt = kStages * kStageBytes, kBiasAt = kFiltersAt + kFilterBytes, kScaleAt = kBiasAt + kVectorBytes;
  static constexpr int kShiftAt = kScaleAt + kVectorBytes, kNormsAt = kShiftAt + kVectorBytes, kBarriersAt = kNormsAt + kTiles * kNormBytes;
  static constexpr int kSharedBytes = kBarriersAt + 3 * 8;

  // Barriers: x of a stage has arrived, weights have, the other blocks of the cluster have sent their moments.
  __device__ __forceinline__ static unsigned x_arrived(unsigned shared, int stage) { return shared + kBarriersAt + stage * 8; }
  __device__ __forceinline__ static unsigned weights_arrived(unsigned shared) { return shared + kBarriersAt + kStages * 8; }
  __device__ __forceinline__ static unsigned sent(unsigned shared) { return shared + kBarriersAt + 2 * 8; }

  __device__ __forceinline__ static int rank() { return kBlocks == 1 ? 0 : blockIdx.x % kBlocks; }
  __device__ __forceinline__ static int first_group(int block) { return block * kGroups / kBlocks; }
  __device__ __forceinline__ static int groups_of(int block) { return first_group(block + 1) - first_group(block); }
  // The first of the tiles that a block has at a time: at the beginning, and how many lie between them and the next ones.
  __device__ __forceinline__ static int first_tile() { return blockIdx.x / kBlocks * kTiles; }
  __device__ __forceinline__ static int stride() { return gridDim.x / kBlocks * kTiles; }
  __device__ __forceinline__ static int tiles(int n, int first) { return smaller(kTiles, n * kTilesOfImage - first); }
};

struct Place {
  int image, row, column;
  __device__ __forceinline__ explicit Place(int tile)
      : image(tile / kTilesOfImage), row(tile / kTilesAcross % kTilesDown * kRows), column(tile % kTilesAcross * kColumns) {}
};

// Where a pixel of x has eight channels, in a tile.
__device__ __forceinline__ constexpr int unit_at(int group, int row, int column) {
  return group / 2 * kBoxBytes + row * kRowBytes + column * kPixelBytes + (group % 2 ^ column / 4 % 2) * 16;
}

// Who begins copies: by tensor maps and in bulk, a thread of the last warp, which may have no channels; without maps, all threads.
constexpr int kCopyThreads = kMapped ? 1 : LAUNCH_THREADS;
__device__ __forceinline__ bool begins_copies() { return !kMapped || threadIdx.x == LAUNCH_THREADS - 32; }

// Begins to copy filters, biases, scales and shifts of the block.
template <typename P>
__device__ __forceinline__ void begin_weights(unsigned shared, const Layer& layer) {
  if (!begins_copies()) return;
  constexpr int kUnitsOfGroup = kGroupTaps / kEight;
  const int groups = P::groups_of(P::rank()), first = P::first_group(P::rank());
  const unsigned barrier = P::weights_arrived(shared);
  const auto copy = [&](int to, const T* from, int units) {
    if constexpr (kMapped) {
      begin_bulk_copy(shared + to, from, units * 16, barrier);
    } else {
      for (int i = threadIdx.x; i < units; i += kCopyThreads) copy_async<16>(shared + to + i * 16, from + i * kEight);
    }
  };
  if constexpr (kMapped) expect_bytes(barrier, groups * (kUnitsOfGroup + 3) * 16);
  copy(P::kFiltersAt, layer.filters + first * kGroupTaps, groups * kUnitsOfGroup);
  copy(P::kBiasAt, layer.bias + first * kEight, groups);
  copy(P::kScaleAt, layer.scale + first * kEight, groups);
  copy(P::kShiftAt, layer.shift + first * kEight, groups);
  if constexpr (!kMapped) arrive_with_copies(barrier);
}

// Begins to copy x of the tiles from `first_tile` on into a stage, zeros where there is none.
template <typename P>
__device__ __forceinline__ void begin_x(unsigned shared, const Layer& layer, int first_tile, int stage) {
  if (!begins_copies()) return;
  const int tiles = P::tiles(layer.n, first_tile), groups = P::groups_of(P::rank()), first = P::first_group(P::rank());
  const unsigned x = shared + stage * P::kStageBytes, barrier = P::x_arrived(shared, stage);
  if constexpr (kMapped) {
    expect_bytes(barrier, tiles * P::kXBytes);
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      const Place place(first_tile + i);
#pragma unroll
      for (int box = 0; box < P::kBoxes; ++box) {
        begin_tensor_copy(x + i * P::kXBytes + box * kBoxBytes, layer.map, place.image, place.row - kPad, place.column - kPad,
                          (first + 2 * box) * kEight, barrier);
      }
    }
  } else {
    constexpr int kUnitsOfTile = kReadRows * kReadColumns * P::kOwn;
#pragma unroll 4
    for (int i = threadIdx.x; i < tiles * kUnitsOfTile; i += kCopyThreads) {
      const int tile = i / kUnitsOfTile, group = i % P::kOwn, pixel = i % kUnitsOfTile / P::kOwn;
      const int read_row = pixel / kReadColumns, read_column = pixel % kReadColumns;
      const Place place(first_tile + tile);
      const int row = place.row + read_row - kPad, column = place.column + read_column - kPad;
      const bool exists = static_cast<unsigned>(row) < kHeight && static_cast<unsigned>(column) < kWidth && group < groups;
      const size_t of_x = static_cast<size_t>(place.image) * (kHeight * kWidth) + row * kWidth + column;
      const T* const from = layer.x + (exists ? of_x * kChannels + (first + group) * kEight : 0);
      copy_async<16>(x + tile * P::kXBytes + unit_at(group, read_row, read_column), from, exists ? 16 : 0);
    }
    arrive_with_copies(barrier);
  }
}
