// The sums of a thread of grouped_conv that adds up by multiply-adds: some pixels of up to 8 outputs of a group, kRows rows of kRun.
#pragma once

#include "grouped_conv/layer.cuh"

// Outputs of a block, the blocks of a group, and the floats of one tap of all outputs.
constexpr int kOut = smaller(kFilters, 8), kParts = ceil_div(kFilters, kOut), kOfTap = round_up(kOut, 4);

template <int kRows, int kRun>
using Sums = float[kOut][kRows][kRun];

__device__ __forceinline__ bool is_output(int out) { return kFilters % kOut == 0 || out < kFilters; }

// Begins with the bias. `first_out`: the first of the outputs in the group.
template <int kRows, int kRun>
__device__ __forceinline__ void begin_sums(Sums<kRows, kRun>& sums, const T* __restrict__ bias, int group, int first_out) {
#pragma unroll
  for (int out = 0; out < kOut; ++out) {
    const float start = is_output(first_out + out) ? to_float(bias[group * kFilters + first_out + out]) : 0.0f;
#pragma unroll
    for (int i = 0; i < kRows * kRun; ++i) sums[out][i / kRun][i % kRun] = start;
  }
}

// Adds a channel: `columns` are the rows of x that the sums' windows have, from column kSkip on, `taps` the channel's, kOfTap for each tap.
template <int kSkip, int kRows, int kRun, int kRowsOfX, int kColumns>
__device__ __forceinline__ void add_channel(Sums<kRows, kRun>& sums, const float (&columns)[kRowsOfX][kColumns], const float* taps) {
#pragma unroll
  for (int tap = 0; tap < Layer::kSize * Layer::kSize; ++tap) {
    float of[kOfTap];
    const float* from = taps + tap * kOfTap;
#pragma unroll
    for (int i = 0; i < kOfTap; i += 4) *reinterpret_cast<float4*>(of + i) = *reinterpret_cast<const float4*>(from + i);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const float* of_row = columns[row * Layer::kStride + tap / Layer::kSize] + kSkip + tap % Layer::kSize;
#pragma unroll
      for (int out = 0; out < kOut; ++out) {
#pragma unroll
        for (int i = 0; i < kRun; ++i) sums[out][row][i] = fmaf(of_row[i * Layer::kStride], of[out], sums[out][row][i]);
      }
    }
  }
}
