// What the convolution of many channels by wgmma (by_wgmma.cuh) computes at a time, and where it lies in shared memory.
//
// A tile has two halves, one for each warpgroup that multiplies. A half is 64 filters, the rows of a product, and 8 columns and 16 rows of
// pixels of y, the 128 columns of a product. The halves are pixels side by side, or in narrow images one above the other; or, at stride 2,
// where x is larger, the same pixels for two blocks of filters. The rows of all images lie one below the other, with rows of zeros after
// each image: so a tile may hold rows of several images, and the border above and below needs no other code than an image's own rows.
// Where images have one row (layer.cuh), a half is 128 pixels side by side.
// A ring of stages holds 16 channels each (stages.cuh).
//
// A unit is 8 channels of a pixel of x, 16 bytes. Neighbouring outputs read every column of x at stride 1 and every second one at stride 2.
// So at stride 2 even columns are stored apart from odd ones: what a tap reads for 8 outputs of a row is 8 units in a row at either stride.
#pragma once

#include "many_channels/operands.cuh"
#include "split_floats/stages.cuh"
#include "wgmma.cuh"

constexpr int kLoadRegisters = 104;  // of a thread
constexpr int kEights = kDepth / kEight;  // of a stage

// kSplits blocks divide the channels of a tile.
template <int kSplits_>
struct Patch {
  static constexpr int kSplits = kSplits_, kStride = Layer::kStride;
  static constexpr bool kOneAxis = Layer::kTapRows == 1;
  static_assert(kOneAxis ? kStride == 1 : Layer::kSize == 3 && kStride <= 2 && Layer::kPad == 1);
  // Of a half: eights of pixels, side by side or one below the other.
  static constexpr int kEightsAcross = kOneAxis ? 16 : 1, kEightsBelow = 16 / kEightsAcross;
  // Of the tile: blocks of filters, halves side by side, and its pixels.
  static constexpr int kBlocks = kStride, kAcross = kBlocks > 1 || Layer::kOutWidth <= 8 * kEightsAcross ? 1 : 2;
  static constexpr int kColumns = 8 * kEightsAcross * kAcross, kRows = 2 * kEightsBelow / (kAcross * kBlocks), kPixels = kColumns * kRows;
  // What it reads of x; at stride 2 with a column that makes their number even.
  static constexpr int kBorderColumns = kStride * kColumns + (Layer::kSize - 1) * Layer::kDilation;
  static constexpr int kBorderRows = kStride * (kRows - 1) + Layer::kTapRows, kBorder = kBorderColumns * kBorderRows;
  // In units: from 8 channels to the next; from even columns to odd ones; all of hi, or of lo. With the gap, 8 neighbouring columns lie in
  // different banks.
  static constexpr int kNextEight = kBorder / kStride, kGap = kStride > 1 ? 2 : 0, kNextColumn = kEights * kNextEight + kGap;
  static constexpr int kXUnits = kEights * kBorder + kGap;
  static_assert(kStride == 1 || kNextColumn % 8 == 4);
  // Bytes: 64 filters at one tap, hi or lo; at all taps, both, as they are packed; of 16 channels. A stage: x hi, x lo, and the filters.
  static constexpr unsigned kFilterBytes = kFilterBlock * 16, kEightBytes = kTaps * 2 * kFilterBytes, kBlockBytes = kEights * kEightBytes;
  static constexpr unsigned kXBytes = 2 * kXUnits * 16, kStageBytes = kXBytes + kBlocks * kBlockBytes;
  static constexpr unsigned kStageShared = kStageBytes + 16 /* barriers */ + 16 /* the largest x */;
  static constexpr int kStages = kStride > 1 || 3 * kStageShared > kMostShared ? 2 : 3;
  static constexpr unsigned kSharedBytes = kStages * kStageShared;
  // From 8 pixels of a half to the next 8, in bytes of x.
  static constexpr unsigned kNextPixels = kOneAxis ? 8 * 16 : kBorderColumns * 16;
  // Sums of the tile in floats, which take the stages' place; lanes that store at once have different banks.
  static constexpr int kTileFilters = kBlocks * kFilterBlock, kSumPitch = kPixels + 8;
  static_assert(kTileFilters * kSumPitch * 4 <= kStages * kStageBytes);

  static constexpr int kSteps = ceil_div(kChannels, kDepth);
  // Rows of y from an image to the next; kStride times as many of x, of which the last one or two are zeros.
  static constexpr int kImageRows = kOneAxis ? 1 : Layer::kHeight / kStride + 1, kNoRows = kImageRows - Layer::kOutHeight;
  static constexpr int kTilesAcross = ceil_div(Layer::kOutWidth, kColumns), kFilterTiles = ceil_div(kFilters, kTileFilters);

  static __device__ __forceinline__ int tiles(int n) { return ceil_div(n * kImageRows - kNoRows, kRows) * kTilesAcross * kFilterTiles; }
  // Where a half begins in the tile: its block of filters, column and row.
  static __device__ __forceinline__ int block(int half) { return kBlocks > 1 ? half : 0; }
  static __device__ __forceinline__ int across(int half) { return kAcross > 1 ? 8 * kEightsAcross * half : 0; }
  static __device__ __forceinline__ int below(int half) { return kAcross * kBlocks > 1 ? 0 : kEightsBelow * half; }
  // Where eight pixels of a half begin in it.
  static __device__ __forceinline__ int row(int eight) { return kOneAxis ? 0 : eight; }
  static __device__ __forceinline__ int column(int eight) { return kOneAxis ? 8 * eight : 0; }
  // Where a unit is in shared memory, in units, by its number: they are counted column by column, row by row, 8 channels by 8.
  static __device__ __forceinline__ int place(int unit) { return unit / kStride + unit % kStride * kNextColumn; }
  // Where a tap's first unit is.
  static __device__ __forceinline__ int tap(int tap) {
    return place(tap / Layer::kSize * kBorderColumns + tap % Layer::kSize * Layer::kDilation);
  }
  // The first 16 channels of one of the blocks that divide them.
  static __device__ __forceinline__ int first_step(int rank) { return kSteps * rank / kSplits; }
};

// Where a tile is in y: its first filter, first column, and first row of all images.
template <typename Patch>
struct Place {
  int filter, column, row;
  __device__ __forceinline__ explicit Place(int tile)
      : filter(tile % Patch::kFilterTiles * Patch::kTileFilters),
        column(tile / Patch::kFilterTiles % Patch::kTilesAcross * Patch::kColumns),
        row(tile / (Patch::kFilterTiles * Patch::kTilesAcross) * Patch::kRows) {}
};

// A pixel by its row of all images.
template <int kImageRows, int kPlanes, int kHeight, int kWidth>
struct Spot {
  int image, row, column;
  __device__ __forceinline__ Spot(int row_of_all, int column_)
      : image(row_of_all / kImageRows), row(row_of_all % kImageRows), column(column_) {}
  __device__ __forceinline__ bool exists(int n) const {
    return image < n && row < kHeight && static_cast<unsigned>(column) < kWidth;
  }
  __device__ __forceinline__ int in_plane() const { return row * kWidth + column; }
  __device__ __forceinline__ int of_all() const { return image * (kHeight * kWidth) + in_plane(); }
  __device__ __forceinline__ int place(int plane) const { return (image * kPlanes + plane) * (kHeight * kWidth) + in_plane(); }
};
template <typename Patch>
using SpotOfX = Spot<Layer::kStride * Patch::kImageRows, kChannels, Layer::kHeight, Layer::kWidth>;
template <typename Patch>
using SpotOfY = Spot<Patch::kImageRows, kFilters, Layer::kOutHeight, Layer::kOutWidth>;

// The stages, and behind their barriers the largest x of each warp that loads.
template <typename Patch>
struct Ring : Stages<Patch> {
  int* most;

  __device__ __forceinline__ explicit Ring(unsigned char* memory)
      : Stages<Patch>(memory), most(reinterpret_cast<int*>(memory + Patch::kStages * (Patch::kStageBytes + 16))) {}
};
