// The convolution of few channels or filters by plain multiply-adds, on any GPU.
//
// Mapping: a block computes a tile of up to 32 filters. A lane has one column, 8 rows of it and 8 filters (4 where there are no more), so
// a warp reads each weight once as a broadcast, and neighbouring words of x. x (with its border of zeros) and the weights come to
// shared memory a few channels at a time.
#pragma once

#include "layer.cuh"

constexpr int kDirectThreads = 128, kWarps = kDirectThreads / 32, kRows = 8, kOut = AXIS_K <= 4 ? 4 : 8;

// Groups of filters are warps; 3 groups leave one warp idle.
constexpr int kGroups = kFilters <= 8 ? 1 : kFilters <= 16 ? 2 : 4, kBlockFilters = kGroups * kOut;
// Columns of a warp: 16 where the last of 32 would be more than half empty.
constexpr int kColumns = (Layer::kOutWidth - 1) % 32 < 16 ? 16 : 32;
constexpr int kTileRows = kRows * (32 / kColumns) * (kWarps / kGroups);
constexpr int kTilesAcross = ceil_div(Layer::kOutWidth, kColumns), kTilesDown = ceil_div(Layer::kOutHeight, kTileRows);

// Columns of x in shared memory: with stride 2 the even ones, then the odd ones.
constexpr int kColumnsOfX = (kColumns - 1) * kStride + kSize, kRowsOfX = (kTileRows - 1) * kStride + kSize;
constexpr int kHalf = kStride == 1 ? 0 : ceil_div(kColumnsOfX, 2) | 1;
constexpr int kPitch = kStride == 1 ? kColumnsOfX : 2 * kHalf;
constexpr int kTapPitch = kBlockFilters + 4;  // neighbouring taps begin in other banks
constexpr int kChannelWords = kRowsOfX * kPitch + kTaps * kTapPitch;
constexpr int kMostWords = 46 * 1024 / 4;
constexpr int kChunk = smaller(kChannels, kMostWords / kChannelWords);
static_assert(kChunk >= 1, "a channel of x and its weights are more than static shared memory");

__host__ __device__ constexpr int place_of(int column) {
  return kStride == 1 ? column : (column & 1) * kHalf + column / 2;
}

__device__ __forceinline__ void few_channels_direct(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias,
                                                    T* __restrict__ y) {
  __shared__ __align__(16) float weights[kChunk * kTaps][kTapPitch];
  __shared__ float patch[kChunk * kRowsOfX * kPitch];
  const int first_filter = blockIdx.y * kBlockFilters;
  const int image = blockIdx.x / (kTilesDown * kTilesAcross), tile = blockIdx.x % (kTilesDown * kTilesAcross);
  const int tile_row = tile / kTilesAcross * kTileRows, tile_column = tile % kTilesAcross * kColumns;
  const int top = tile_row * kStride - Layer::kPad, left = tile_column * kStride - Layer::kPad;
  const T* from = x + static_cast<size_t>(image) * kChannels * Layer::kPlane;

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp % kGroups;
  const int column = lane % kColumns, row = (warp / kGroups * (32 / kColumns) + lane / kColumns) * kRows;

  float sums[kOut][kRows] = {};
#pragma unroll 1
  for (int first_channel = 0; first_channel < kChannels; first_channel += kChunk) {
    if (first_channel > 0) __syncthreads();
#pragma unroll 4
    for (int i = threadIdx.x; i < kChunk * kTaps * kBlockFilters; i += kDirectThreads) {
      const int filter = first_filter + i / (kChunk * kTaps), tap = i % (kChunk * kTaps);
      const bool exists = filter < kFilters && first_channel + tap / kTaps < kChannels;
      weights[tap][i / (kChunk * kTaps)] = exists ? to_float(w[(filter * kChannels + first_channel) * kTaps + tap]) : 0.0f;
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < kChunk * kRowsOfX * kColumnsOfX; i += kDirectThreads) {
      const int j = i % kColumnsOfX, line = i / kColumnsOfX;
      const int channel = first_channel + line / kRowsOfX, row_of_x = top + line % kRowsOfX, column_of_x = left + j;
      const bool inside = channel < kChannels && static_cast<unsigned>(row_of_x) < Layer::kHeight &&
                          static_cast<unsigned>(column_of_x) < Layer::kWidth;
      patch[line * kPitch + place_of(j)] =
          inside ? to_float(from[(channel * Layer::kHeight + row_of_x) * Layer::kWidth + column_of_x]) : 0.0f;
    }
    __syncthreads();
    const int channels = smaller(kChunk, kChannels - first_channel);
#pragma unroll 1
    for (int c = 0; c < channels; ++c) {
      const float* corner = patch + (c * kRowsOfX + row * kStride) * kPitch + column;
#pragma unroll 1
      for (int j = 0; j < kSize; ++j) {
        float values[(kRows - 1) * kStride + kSize];
#pragma unroll
        for (int i = 0; i < (kRows - 1) * kStride + kSize; ++i) values[i] = corner[i * kPitch + place_of(j)];
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
          float of[kOut];
          const float* tap = weights[c * kTaps + i * kSize + j] + group * kOut;
#pragma unroll
          for (int f = 0; f < kOut; f += 4) *reinterpret_cast<float4*>(of + f) = *reinterpret_cast<const float4*>(tap + f);
#pragma unroll
          for (int f = 0; f < kOut; ++f) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) sums[f][r] = fmaf(values[r * kStride + i], of[f], sums[f][r]);
          }
        }
      }
    }
  }

#pragma unroll
  for (int f = 0; f < kOut; ++f) {
    const int filter = first_filter + group * kOut + f;
    if (filter >= kFilters) return;
    const float offset = to_float(bias[filter]);
    T* plane = y + (static_cast<size_t>(image) * kFilters + filter) * Layer::kOutPlane;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float one[1] = {sums[f][r]};
      store_outputs(plane, tile_row + row + r, tile_column + column, one, offset);
    }
  }
}
