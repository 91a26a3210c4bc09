// What a 3x3 convolution of channels-last maps by wgmma (by_wgmma.cuh) computes at a time, and where it lies in shared memory.
//
// A tile has two halves, one for each warpgroup that multiplies. A half is 64 filters, the rows of a product, and pixels of y in 8 columns, the
// 128 128 columns of a product: 16 rows of them. The halves are pixels side by side, or in narrow images one above the other; or the same pixels
// for two blocks of filters. The rows of all images lie one below the other, with rows of zeros after each image (windows/spot.cuh): so a
// tile may hold rows of several images, and the border above and below needs no other code than an image's own rows.
//
// A unit is 8 channels of a pixel of x, 16 bytes. At stride 2 even columns are stored apart from odd ones: what a tap reads for 8 outputs of a
// row is 8 units in a row at either stride.
#pragma once

#include "channels_last/layer.cuh"
#include "split_floats/stages.cuh"
#include "wgmma.cuh"
#include "windows/spot.cuh"

constexpr int kLoadRegisters = 72, kMultiplyRegisters = 216;  // of a thread
static_assert(kLoadRegisters + 2 * kMultiplyRegisters <= 3 * kMostRegisters);
constexpr int kHalfRows = 16;  // of 8 pixels
constexpr unsigned kMostShared = 227 * 1024;  // of a block of sm_90

// kSplits_ blocks of a cluster divide the channels of a tile.
template <int kSplits_>
struct Patch {
  static constexpr int kSplits = kSplits_, kStride = Layer::kStride;
  // At stride 2, where a tile reads more of x, it has fewer pixels and more filters.
  static constexpr int kBlocks = kStride;
  static constexpr int kAcross = kBlocks > 1 || Layer::kOutWidth <= 8 ? 1 : 2;  // halves side by side
  static constexpr int kColumns = 8 * kAcross, kRows = 2 * kHalfRows / (kAcross * kBlocks), kPixels = kColumns * kRows;
  // What it reads of x; at stride 2 with a column that makes their number even.
  static constexpr int kBorderColumns = kStride * kColumns + 2, kBorder = kBorderColumns * (kStride * (kRows - 1) + 3);
  // In units: from 8 channels to the next; from even columns to odd ones.
  static constexpr int kNextEight = kBorder / kStride, kNextColumn = kEights * kNextEight;
  // Bytes: 64 filters at a tap, of 8 channels, of 16. A stage: 16 channels of x, and of the filters.
  static constexpr unsigned kFilterBytes = kOfTap * 2, kEightBytes = kTaps * kFilterBytes, kBlockBytes = kOfStep * 2;
  static constexpr unsigned kXBytes = kEights * kBorder * 16, kStageBytes = kXBytes + kBlocks * kBlockBytes;
  static constexpr int kFit = kMostShared / (kStageBytes + 16), kStages = kFit < 4 ? kFit : 4;
  static constexpr unsigned kSharedBytes = kStages * (kStageBytes + 16 /* barriers */);
  // Sums of the tile in floats, filters last, which take the stages' place where blocks divide the channels.
  static constexpr int kTileFilters = kBlocks * kFilterBlock, kSumPitch = kTileFilters + 8;
  static_assert(kSplits == 1 || kPixels * kSumPitch * 4 <= kStages * kStageBytes);

  // Rows of y from an image to the next; kStride times as many of x, of which the last one or two are zeros.
  static constexpr int kImageRows = Layer::kHeight / kStride + 1, kNoRows = kImageRows - Layer::kOutHeight;
  static constexpr int kTilesAcross = ceil_div(Layer::kOutWidth, kColumns), kFilterTiles = ceil_div(kFilterBlocks, kBlocks);

  static __device__ __forceinline__ int tiles(int n) { return ceil_div(n * kImageRows - kNoRows, kRows) * kTilesAcross * kFilterTiles; }
  // Where a half begins in the tile: its block of filters, column and row.
  static __device__ __forceinline__ int block(int half) { return kBlocks > 1 ? half : 0; }
  static __device__ __forceinline__ int across(int half) { return kAcross > 1 ? 8 * half : 0; }
  static __device__ __forceinline__ int below(int half) { return kAcross * kBlocks > 1 ? 0 : kHalfRows * half; }
  // Where a pixel's first unit is in shared memory, in units. kBorderColumns is even, so every second pixel is in an odd column.
  static __device__ __forceinline__ int place(int pixel) { return pixel / kStride + pixel % kStride * kNextColumn; }
  static __device__ __forceinline__ int tap(int tap) { return place(tap / Layer::kSize * kBorderColumns + tap % Layer::kSize); }
  // The first 16 channels of one of the blocks that divide them.
  static __device__ __forceinline__ int first_step(int rank) { return kSteps * rank / kSplits; }
};

// Where a tile is in y: its first block of filters, first column, and first row of all images.
template <typename Patch>
struct Place {
  int block, column, row;
  __device__ __forceinline__ explicit Place(int tile)
      : block(tile % Patch::kFilterTiles * Patch::kBlocks),
        column(tile / Patch::kFilterTiles % Patch::kTilesAcross * Patch::kColumns),
        row(tile / (Patch::kFilterTiles * Patch::kTilesAcross) * Patch::kRows) {}
};
// Pixels of x and of y.
template <typename Patch>
using SpotOfX = Spot<Layer::kStride * Patch::kImageRows, kChannels, Layer::kHeight, Layer::kWidth>;
template <typename Patch>
using SpotOfY = Spot<Patch::kImageRows, kFilters, Layer::kOutHeight, Layer::kOutWidth>;
