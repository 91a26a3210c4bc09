// What a 3x3 convolution of channels-last maps line by line (by_lines.cuh) computes at a time, and where it lies in shared memory.
//
// A line is 64 columns of a row of y, the rows of a product; its columns are 32 filters, and a layer has no more. Each of the four warpgroups that
// multiply goes down lines of its own, from strip to strip of 64 columns, and from image to image.
//
// Each has a ring of its own, a stage of which is a line of x with its border: 16 channels of all its pixels, then 16 more. The two units of a
// pixel, each 8 channels and 16 bytes, are swizzled: a warp that reads eight pixels meets no bank twice. Behind the rings lie the filters.
#pragma once

#include "channels_last/layer.cuh"
#include "split_floats/stages.cuh"
#include "wgmma.cuh"

// A tensor map brings 16 channels of a line at once; otherwise the 32 threads of a warp copy them.
constexpr bool kMapped = kStepsMapped;
constexpr int kGroups = 4, kLineThreads = (1 + kGroups) * kRole;
constexpr int kLoadRegisters = 32;  // of a thread

struct Line {
  static constexpr int kColumns = 64, kStrips = ceil_div(kWidth, kColumns), kMostFilters = 32;
  static constexpr int kSums = kMostFilters / 2;  // of a lane
  static_assert(kFilters <= kMostFilters);
  static constexpr int kBorder = kColumns + 2, kBoxBytes = kBorder * kPixelBytes;
  static constexpr unsigned kStepBytes = ceil_div(kBoxBytes, kSwizzleAlign) * kSwizzleAlign, kStageBytes = kSteps * kStepBytes;
  static constexpr int kStages = kSteps > 4 ? 2 : 4;
  static constexpr unsigned kRingBytes = kStages * kStageBytes + kSwizzleAlign;  // with its barriers
  // Filters of 8 channels: at a tap, and at all taps; filters of the three rows of a column follow each other, and are columns of one product.
  static constexpr unsigned kTapBytes = kMostFilters * 16, kTapsBytes = kTaps * kTapBytes;
  static constexpr unsigned kFiltersAt = kGroups * kRingBytes, kFilterBytes = kSteps * kEights * kTapsBytes;
  static constexpr unsigned kArrivedAt = kFiltersAt + kFilterBytes, kSharedBytes = kArrivedAt + 16;  // a barrier
};
using LineRing = Stages<Line, kRole / 32, kMapped ? 1 : 32>;

// The lines of a warpgroup, and the row of x that it is at. All have as many lines as any other, or one more.
struct Lines {
  int begin, end;   // of the lines of all images
  int first, last;  // of this strip: rows first to last - 1 of y
  int row;          // of x

  __device__ __forceinline__ Lines(int n, int group) {
    const long long all = static_cast<long long>(n) * (Line::kStrips * kHeight);
    const int share = kGroups * blockIdx.x + group, shares = kGroups * gridDim.x;
    begin = static_cast<int>(all * share / shares);
    end = static_cast<int>(all * (share + 1) / shares);
    begin_strip();
  }

  __device__ __forceinline__ bool exist() const { return begin < end; }
  __device__ __forceinline__ int image() const { return begin / (kHeight * Line::kStrips); }
  __device__ __forceinline__ int column() const { return begin / kHeight % Line::kStrips * Line::kColumns; }
  __device__ __forceinline__ bool is_first_row() const { return row == larger(first - 1, 0); }

  __device__ __forceinline__ void advance() {
    if (++row <= smaller(last, kHeight - 1)) return;
    begin += last - first;
    begin_strip();
  }

 private:
  __device__ __forceinline__ void begin_strip() {
    first = begin % kHeight;
    last = smaller(kHeight, first + end - begin);
    row = larger(first - 1, 0);
  }
};
