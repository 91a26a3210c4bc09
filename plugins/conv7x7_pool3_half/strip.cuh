// What conv7x7_pool3_half by wgmma (by_wgmma.cuh) computes at a time, and where it lies in shared memory.
//
// A strip is 56 pooled columns and 64 filters; a block goes down rows of it, from image to image. A warp that multiplies has 7 pooled columns, for
// which it computes 16 columns of the convolution: the last of a warp, and the first of the next one, are the same.
//
// A stage is 4 rows of all channels, one below the other: rows 4 p + 2 to 4 p + 5 of x are what pooled row p reads and row p - 1 does not. So
// they come to shared memory once, and to registers once. A row begins 8 columns before the first one of its strip, so copies of 16 bytes
// begin at multiples of 16.
#pragma once

#include "conv7x7_pool3_half/layer.cuh"
#include "split_floats/stages.cuh"
#include "wgmma.cuh"

constexpr int kLoadRegisters = 72;  // of a thread

struct Strip {
  static constexpr int kOfWarp = 7, kColumns = 8 * kOfWarp, kAcross = ceil_div(kPooledWidth, kColumns);
  static constexpr int kBefore = 8, kLineColumns = 240;  // of x
  static constexpr int kOfUnit = 16 / sizeof(X), kUnits = kLineColumns / kOfUnit, kLineBytes = kUnits * 16;
  static constexpr int kStageRows = 4, kLines = kStageRows * kChannels, kStages = 4;
  static constexpr unsigned kStageBytes = kLines * kLineBytes, kFiltersAt = kStages * (kStageBytes + 16 /* barriers */);
  static constexpr unsigned kRowBytes = kOfRow * 2, kFilterBytes = kOfBlock * 2, kSharedBytes = kFiltersAt + kFilterBytes;
  const int column, block;  // the first pooled one, and the block of filters
  __device__ __forceinline__ Strip() : column(blockIdx.y % kAcross * kColumns), block(blockIdx.y / kAcross) {}
};

// Pooled rows of an image that a block computes: first to last - 1. A block has as many of all images' rows as any other, or one more.
struct Rows {
  int image, first, last;
};

template <typename Visit>
__device__ __forceinline__ void each_image(int n, Visit&& visit) {
  const long long all = static_cast<long long>(n) * kPooledHeight;
  int row = static_cast<int>(all * blockIdx.x / gridDim.x);
  const int end = static_cast<int>(all * (blockIdx.x + 1) / gridDim.x);
#pragma unroll 1
  while (row < end) {
    const int image = row / kPooledHeight, first = row % kPooledHeight, last = smaller(kPooledHeight, first + end - row);
    visit(Rows{image, first, last});
    row += last - first;
  }
}
