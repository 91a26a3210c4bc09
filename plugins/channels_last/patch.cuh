// What a 3x3 convolution of channels-last maps by wgmma (by_wgmma.cuh) computes at a time, and where it lies in shared memory.
//
// A tile has two halves, one for each warpgroup that multiplies: 64 filters, the rows of a product, and 8 columns and 16 or 14 rows of pixels of y,
// the 128 or 112 columns of a product. The halves are side by side where that fills images, or one above the other. Where images have as many rows
// as whole tiles, each tile is of one image. Otherwise the rows of all images lie one below the other, with a row of zeros between two images: so a
// tile may hold rows of several.
//
// A stage has 16 channels of the pixels of a tile and its border: two units of 16 bytes a pixel, swizzled. A tensor map brings them where they are a
// box; otherwise threads copy them.
#pragma once

#include "channels_last/layer.cuh"
#include "split_floats/stages.cuh"
#include "wgmma.cuh"
#include "windows/spot.cuh"

constexpr int kLoadRegisters = 72;  // of a thread
constexpr int kHalfRows = kHeight % 14 == 0 && kHeight % 16 != 0 ? 14 : 16, kHalfPixels = 8 * kHalfRows;
constexpr int kAcross = ceil_div(kWidth, 8) % 2 == 0 ? 2 : 1;  // halves side by side
constexpr int kTileColumns = 8 * kAcross, kTileRows = 2 * kHalfRows / kAcross, kTilePixels = 2 * kHalfPixels;
constexpr int kBorderColumns = kTileColumns + 2, kBorder = kBorderColumns * (kTileRows + 2);  // what a tile reads of x
// From an image's first row to the next one's.
constexpr bool kWholeTiles = kHeight % kTileRows == 0;
constexpr int kImageRows = kWholeTiles ? kHeight : kHeight + 1;
constexpr int kTilesAcross = ceil_div(kWidth, kTileColumns);
// A box is rows of one image, or some images, each with the row of zeros above it; and its channels are of one tensor.
constexpr bool kWholeImages = !kWholeTiles && kTileRows % kImageRows == 0;
constexpr bool kMapped = kStepsMapped && (kWholeTiles || kWholeImages);
constexpr int kBoxPixels = (kWholeTiles ? kTileRows + 2 : kTileRows) * kBorderColumns;
using ImageSpot = Spot<kImageRows, kHeight, kWidth>;

__device__ __forceinline__ int tiles_of(int n) {
  return ceil_div(n * kImageRows - (kImageRows - kHeight), kTileRows) * kTilesAcross * kFilterBlocks;
}

// Where a tile is: its block of filters, first column, and first row of all images.
struct Place {
  int block, column, row;
  __device__ __forceinline__ explicit Place(int tile)
      : block(tile % kFilterBlocks),
        column(tile / kFilterBlocks % kTilesAcross * kTileColumns),
        row(tile / (kFilterBlocks * kTilesAcross) * kTileRows) {}
  // A half's first column and row.
  __device__ __forceinline__ int column_of(int half) const { return column + (kAcross > 1 ? 8 * half : 0); }
  __device__ __forceinline__ int row_of(int half) const { return row + (kAcross > 1 ? 0 : kHalfRows * half); }
};

constexpr int kPixelPitch = kFilterBlock + kEight;  // of an output's filters in shared memory: pixels that are written at once have different banks

// The stages of a block; kSplits blocks of a cluster divide the channels of a tile. A stage has 16 channels of x and of the filters.
template <int kSplits_>
struct Plan {
  static constexpr int kSplits = kSplits_;
  static constexpr unsigned kXBytes = ceil_div(kBorder * kPixelBytes, kSwizzleAlign) * kSwizzleAlign, kFilterBytes = kOfStep * 2;
  static constexpr unsigned kStageBytes = kXBytes + kFilterBytes;
  static constexpr int kStages = 4;
  // Steps whose filters are copied before the kernel in front has ended; each of the blocks that divide the channels has as many.
  static constexpr int kAhead = kSplits > 1 ? smaller(kStages, kSteps / kSplits) : 0;
  // Behind the stages, outputs on their way, where a block computes them alone.
  static constexpr unsigned kStored = kStages * (kStageBytes + 16 /* barriers */);
  static constexpr unsigned kSharedBytes = kStored + (kSplits == 1 ? kTilePixels * kPixelPitch * 2 : 0);
  // Sums of the tile in floats, filters last, which take the stages' place where blocks divide the channels.
  static constexpr int kSumPitch = kFilterBlock + 8;
  static_assert(kTilePixels * kSumPitch * 4 <= kStages * kStageBytes);
  // The first step of a block's share.
  static __device__ __forceinline__ int first_step(int rank) { return kSteps * rank / kSplits; }
};

// The stages, which the warps that multiply read. One thread fills them where boxes are copied.
template <typename Plan>
using Ring = Stages<Plan, 2 * kRole / 32, kMapped ? 1 : kRole + 1>;
