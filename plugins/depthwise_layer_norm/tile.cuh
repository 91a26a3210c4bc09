// Tiles of depthwise_layer_norm on tensor cores: 8 columns of an image, and pairs of rows.
//
// Shared memory, for a block: x of its tiles, the filters of its channels, and for each tile what norm.cuh keeps. x has 16 columns for a tile, in
// boxes of 16 channels: a pixel of a box has two units of 8, swizzled.
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

// A block, of kBlocks that share the channels of their tiles.
template <int kBlocks_>
struct Plan {
  static constexpr int kBlocks = kBlocks_, kOwn = ceil_div(kGroups, kBlocks);         // groups of eight channels, of a block: one for each warp
  static constexpr int kTiles = LAUNCH_THREADS / (32 * kOwn), kThreads = 32 * kOwn;  // of a tile; warps that are left do nothing
  static constexpr int kBoxes = ceil_div(kOwn, 2), kXBytes = kBoxes * kBoxBytes, kFilterBytes = kOwn * kGroupTaps * 2;
  // Of a tile: mean and squared distances of each group and, in a cluster, of each block; then mean and what divides, of all channels.
  static constexpr int kParts = kOwn + (kBlocks > 1 ? kBlocks : 0), kNormBytes = (kParts + 1) * kPixels * 8;
  static constexpr int kFiltersAt = kTiles * kXBytes, kNormsAt = kFiltersAt + kFilterBytes, kBarriersAt = kNormsAt + kTiles * kNormBytes;
  static constexpr int kSharedBytes = kBarriersAt + 16;

  __device__ __forceinline__ static int rank() { return kBlocks == 1 ? 0 : blockIdx.x % kBlocks; }
  __device__ __forceinline__ static int first_group(int block) { return block * kGroups / kBlocks; }
  __device__ __forceinline__ static int groups_of(int block) { return first_group(block + 1) - first_group(block); }
  __device__ __forceinline__ static int first_tile() { return blockIdx.x / kBlocks * kTiles; }
  __device__ __forceinline__ static int tiles(int n) { return smaller(kTiles, n * kTilesOfImage - first_tile()); }
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

// Begins to copy x of all tiles, zeros where there is none, and the filters; they count on the barrier. One thread calls it.
template <typename P>
__device__ __forceinline__ void begin_bulk_copies(unsigned shared, const Layer& layer, unsigned barrier) {
  const int tiles = P::tiles(layer.n), filter_bytes = P::groups_of(P::rank()) * kGroupTaps * 2, first = P::first_group(P::rank());
  expect_bytes(barrier, tiles * P::kXBytes + filter_bytes);
  begin_bulk_copy(shared + P::kFiltersAt, layer.filters + first * kGroupTaps, filter_bytes, barrier);
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    const Place place(P::first_tile() + i);
#pragma unroll
    for (int box = 0; box < P::kBoxes; ++box) {
      begin_tensor_copy(shared + i * P::kXBytes + box * kBoxBytes, layer.map, place.image, place.row - kPad, place.column - kPad,
                        (first + 2 * box) * kEight, barrier);
    }
  }
}

// The same by all threads, without a map.
template <typename P>
__device__ __forceinline__ void begin_copies(unsigned shared, const Layer& layer) {
  constexpr int kUnitsOfTile = kReadRows * kReadColumns * P::kOwn, kUnitsOfGroup = kGroupTaps / kEight;
  const int tiles = P::tiles(layer.n), groups = P::groups_of(P::rank()), first = P::first_group(P::rank());
#pragma unroll 4
  for (int i = threadIdx.x; i < tiles * kUnitsOfTile; i += LAUNCH_THREADS) {
    const int tile = i / kUnitsOfTile, group = i % P::kOwn, pixel = i % kUnitsOfTile / P::kOwn;
    const int read_row = pixel / kReadColumns, read_column = pixel % kReadColumns;
    const Place place(P::first_tile() + tile);
    const int row = place.row + read_row - kPad, column = place.column + read_column - kPad;
    const bool exists = static_cast<unsigned>(row) < kHeight && static_cast<unsigned>(column) < kWidth && group < groups;
    const size_t of_x = static_cast<size_t>(place.image) * (kHeight * kWidth) + row * kWidth + column;
    const T* const from = layer.x + (exists ? of_x * kChannels + (first + group) * kEight : 0);
    copy_async<16>(shared + tile * P::kXBytes + unit_at(group, read_row, read_column), from, exists ? 16 : 0);
  }
#pragma unroll 4
  for (int i = threadIdx.x; i < groups * kUnitsOfGroup; i += LAUNCH_THREADS) {
    copy_async<16>(shared + P::kFiltersAt + i * 16, layer.filters + first * kGroupTaps + i * kEight);
  }
  copy_async_wait_all();
  __syncthreads();
}
