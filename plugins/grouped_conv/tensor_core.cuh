// The grouped convolution on tensor cores, stride 1, fp16 or bfloat16 with float sums.
//
// A product has the pixels 2 j and 2 j + 1 of column j, for 8 columns: its row o is output o of the first pixel, row o + 8 that of
// the second one, where the filter is shifted by a column. Its depth runs over the rows of the filter in all channels of the group,
// and for each over kWords words of two columns of x. A lane ends with four neighbouring pixels of an output.
//
// Mapping: a block takes a band of a group's rows into shared memory; its warps compute rows in turn, all columns at once.
//
// The zeros beside a filter times an infinity or NaN are NaN: outputs that are not finite are computed again by multiply-adds.
#pragma once

#include "layer.cuh"
#include "mma.cuh"
#include "windows/planes.cuh"

template <int kWarps_>
struct GroupPlan {
  static constexpr int kWarps = kWarps_, kThreads = 32 * kWarps;
  static constexpr int kOut = 8, kParts = (kFilters + kOut - 1) / kOut;
  static constexpr int kColumnTiles = (Layer::kOutWidth + 15) / 16;
  // Columns of x in words: kLeft of the first word are left of the window of the first pixel.
  static constexpr int kAligned = round_up(Layer::kPad, 2), kLeft = kAligned - Layer::kPad;
  static constexpr int kWords = (kLeft + kSize + 1 + 1) / 2;
  // Rows of the filter in all channels; 8 of them and a word each are the depth of a product.
  static constexpr int kFilterRows = kChannels * kSize, kBlocks = (kFilterRows + 7) / 8;
  // kPitch is an odd number of 16 elements, and the rows of a plane are as many as those of the filter, modulo 4: so the rows of
  // the filter that four lanes read lie in different banks.
  static constexpr int kBandRows = Layer::kOutHeight < 17 ? round_up(Layer::kOutHeight - 1, 4) + 1 : 17;
  static constexpr int kBands = (Layer::kOutHeight + kBandRows - 1) / kBandRows;
  static constexpr int kRows = kBandRows + kSize - 1;
  static constexpr int kRead = kPack + 16 * kColumnTiles - kAligned + 2 * kWords;
  static constexpr int kCopied = kPack + Layer::kWidth + Layer::kPad;
  static constexpr int kPitch = ((kRead > kCopied ? kRead : kCopied) + 15) / 16 / 2 * 32 + 16;
  static_assert(kPitch >= kRead && kPitch >= kCopied, "rows are too short");
  static constexpr int kSharedBytes = kChannels * kRows * kPitch * static_cast<int>(sizeof(T));
};

// The filters of 8 outputs as operand A: a lane has output lane / 4 for both pixels.
template <typename Plan>
struct ShiftedFilters {
  unsigned of[Plan::kWords][Plan::kBlocks][4];

  __device__ __forceinline__ ShiftedFilters(const T* __restrict__ filter, bool exists, int lane) {
#pragma unroll
    for (int word = 0; word < Plan::kWords; ++word) {
#pragma unroll
      for (int block = 0; block < Plan::kBlocks; ++block) {
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int row = 8 * block + part / 2 * 4 + lane % 4, pixel = part % 2;
          Vector<T, 2> pair;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int tap = 2 * word + half - Plan::kLeft - pixel;
            const bool inside = tap >= 0 && tap < kSize && row < Plan::kFilterRows && exists;
            pair.value[half] = inside ? filter[row * kSize + tap] : from_float<T>(0.0f);
          }
          of[word][block][part] = *reinterpret_cast<const unsigned*>(&pair);
        }
      }
    }
  }
};

template <typename Plan>
__device__ __noinline__ float exact_sum(const T* window, const T* __restrict__ filter, float sum) {
  for (int i = 0; i < kTaps; ++i) {
    const int channel = i / (kSize * kSize), row = i / kSize % kSize;
    sum = fmaf(to_float(window[(channel * Plan::kRows + row) * Plan::kPitch + i % kSize]), to_float(filter[i]), sum);
  }
  return sum;
}

template <typename Plan>
__device__ __forceinline__ void grouped_bands(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ all_bias,
                                              int n, T* __restrict__ y) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* rows = reinterpret_cast<T*>(shared);
  const unsigned unit = blockIdx.x / Plan::kBands;  // a group of an image
  const int first_row = blockIdx.x % Plan::kBands * Plan::kBandRows, group = unit % kGroups;
  copy_planes<Layer, kChannels, Plan::kRows, Plan::kPitch, Plan::kThreads>(
      rows, x, unit * kChannels, static_cast<unsigned>(n) * kGroups * kChannels, first_row - Layer::kPad, threadIdx.x);
  zero_borders<Layer, kChannels * Plan::kRows, Plan::kPitch, Plan::kThreads>(rows, threadIdx.x);
  wait_for_copies();
  __syncthreads();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  // Where the lane's rows of the filter begin in x, in words.
  int starts[Plan::kBlocks][2];
#pragma unroll
  for (int i = 0; i < Plan::kBlocks * 2; ++i) {
    const int row = min(4 * i + t, Plan::kFilterRows - 1);  // a row too many meets zeros
    starts[i / 2][i % 2] = ((row / kSize * Plan::kRows + row % kSize) * Plan::kPitch + kPack - Plan::kAligned) / 2 + g;
  }
  const unsigned* words = reinterpret_cast<const unsigned*>(rows);
#pragma unroll 1
  for (int part = 0; part < Plan::kParts; ++part) {
    const int out = part * Plan::kOut + g;
    const bool exists = kFilters % Plan::kOut == 0 || out < kFilters;
    const int channel = group * kFilters + (exists ? out : 0);
    const T* filter = w + static_cast<size_t>(channel) * kTaps;
    const float bias = to_float(all_bias[channel]);
    const ShiftedFilters<Plan> filters(filter, exists, lane);
    T* plane = y + (static_cast<size_t>(unit) * kFilters + out) * Layer::kOutPlane;
#pragma unroll 1
    for (int row = warp; row < Plan::kBandRows && first_row + row < Layer::kOutHeight; row += Plan::kWarps) {
      float sums[Plan::kColumnTiles][4];
#pragma unroll
      for (int i = 0; i < Plan::kColumnTiles * 4; ++i) sums[i / 4][i % 4] = bias;
#pragma unroll
      for (int block = 0; block < Plan::kBlocks; ++block) {
        const unsigned* low = words + starts[block][0] + row * (Plan::kPitch / 2);
        const unsigned* high = words + starts[block][1] + row * (Plan::kPitch / 2);
#pragma unroll
        for (int word = 0; word < Plan::kWords; ++word) {
          const auto& a = filters.of[word][block];
#pragma unroll
          for (int tile = 0; tile < Plan::kColumnTiles; ++tile) {
            mma_16x8x16<T>(sums[tile], a[0], a[1], a[2], a[3], low[8 * tile + word], high[8 * tile + word]);
          }
        }
      }
      float probe = 0.0f;  // NaN after a sum that is not finite
#pragma unroll
      for (int i = 0; i < Plan::kColumnTiles * 4; ++i) probe = fmaf(sums[i / 4][i % 4], 0.0f, probe);
#pragma unroll
      for (int tile = 0; tile < Plan::kColumnTiles; ++tile) {
        const int first = 16 * tile + 4 * t;
        T* address = plane + (first_row + row) * Layer::kOutWidth + first;
        Vector<T, 4> pixels;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float sum = sums[tile][i % 2 * 2 + i / 2];
          if (probe != probe && exists && first + i < Layer::kOutWidth) {
            sum = exact_sum<Plan>(rows + row * Plan::kPitch + kPack + first + i - Layer::kPad, filter, bias);
          }
          pixels.value[i] = from_float<T>(activate<kActivation>(sum));
        }
        if (!exists) continue;
        if constexpr (Layer::kOutWidth % 4 == 0) {
          if (first < Layer::kOutWidth) store_vector(address, pixels);
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (first + i < Layer::kOutWidth) address[i] = pixels.value[i];
          }
        }
      }
    }
  }
}
