// What a 3x3 convolution of channels-last maps line by line (by_lines.cuh) computes at a time, and where it lies in shared memory.
//
// A line is 64 columns of a row of y, the rows of a product; its columns are 32 filters, and a layer has no more. Each of the two warpgroups that
// multiply goes down lines of its own, from strip to strip of 64 columns, and from image to image.
//
// A unit is 8 channels of a pixel of x, 16 bytes. A stage has a line of x with its border for each of the two: 8 channels of all its pixels, then 8
// more. The filters lie behind the stages all the time.
#pragma once

#include "channels_last/layer.cuh"
#include "split_floats/stages.cuh"
#include "wgmma.cuh"

constexpr int kLoadRegisters = 72;  // of a thread

struct Line {
  static constexpr int kColumns = 64, kStrips = ceil_div(kWidth, kColumns), kMostFilters = 32;
  static constexpr int kSums = kMostFilters / 2;  // of a lane
  static_assert(kFilters <= kMostFilters);
  static constexpr int kBorder = kColumns + 2, kUnitsOfPixel = kSteps * kEights;
  // From a pixel's unit to its next one, in units: an odd number, so that neither a pixel's units nor eight pixels' meet in a bank.
  static constexpr int kPitch = 73;
  static_assert(kPitch % 8 == 1 && kPitch >= kBorder);
  static constexpr unsigned kLineBytes = kUnitsOfPixel * kPitch * 16, kStageBytes = 2 * kLineBytes;
  static constexpr int kStages = kSteps > 4 ? 2 : 4;
  // Filters of 8 channels: at a tap, and at all taps; filters of the three rows of a column follow each other, and are columns of one product.
  static constexpr unsigned kTapBytes = kMostFilters * 16, kTapsBytes = kTaps * kTapBytes;
  static constexpr unsigned kFiltersAt = kStages * (kStageBytes + 16 /* barriers */), kFilterBytes = kUnitsOfPixel * kTapsBytes;
  static constexpr unsigned kSharedBytes = kFiltersAt + kFilterBytes;
};

// The lines of a warpgroup, and the row of x that it is at. All have as many lines as any other, or one more.
struct Lines {
  int begin, end;   // of the lines of all images
  int first, last;  // of this strip: rows first to last - 1 of y
  int row;          // of x

  __device__ __forceinline__ Lines(int n, int half) {
    const long long all = static_cast<long long>(n) * (Line::kStrips * kHeight);
    const int share = 2 * blockIdx.x + half, shares = 2 * gridDim.x;
    begin = static_cast<int>(all * share / shares);
    end = static_cast<int>(all * (share + 1) / shares);
    begin_strip();
  }

  __device__ __forceinline__ bool exist() const { return begin < end; }
  __device__ __forceinline__ int image() const { return begin / (kHeight * Line::kStrips); }
  __device__ __forceinline__ int column() const { return begin / kHeight % Line::kStrips * Line::kColumns; }
  __device__ __forceinline__ bool is_first_row() const { return row == larger(first - 1, 0); }
  // Rows of x that are read.
  __device__ __forceinline__ int rows() const { return exist() ? end - begin + (begin % kHeight != 0) + (end % kHeight != 0) : 0; }

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
