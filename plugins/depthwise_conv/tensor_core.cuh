// The depthwise convolution on tensor cores: 16 rows of 8 outputs are a sum, over the rows of the filter, of products of
// 16 rows of x and a band matrix of that row's taps. fp16 or bfloat16, float sums.
//
// Mapping: a warp computes a band of up to kBandTiles * 16 rows of a plane from its own part of shared memory. For a row of the
// filter it loads each 8 columns of x once (ldmatrix) and uses them for all outputs that they reach.
//
// The zeros of a band matrix times an infinity or NaN are NaN: outputs that are not finite are computed again by multiply-adds.
#pragma once

#include "mma.cuh"
#include "planes.cuh"

template <int kWarps_>
struct BandPlan {
  static constexpr int kWarps = kWarps_, kThreads = 32 * kWarps;
  static constexpr int kRowTiles = ceil_div(Layer::kOutHeight, 16), kColumnTiles = ceil_div(Layer::kOutWidth, 8);
  static constexpr int kBandTiles = kRowTiles < 4 ? kRowTiles : 4;
  static constexpr int kBands = ceil_div(kRowTiles, kBandTiles);
  // Sums of this many column tiles are in registers at once; the last chunk may end outside the plane.
  static constexpr int kChunks = ceil_div(kColumnTiles, 8), kChunk = ceil_div(kColumnTiles, kChunks);
  // Columns of x are in blocks of 8; block 0 is left of the plane. Outputs 8 j ... 8 j + 7 need kBlocks of them from kStride * j on.
  static constexpr int kBlocks = Layer::kStride + 2;
  static constexpr int kRead = Layer::kStride * kChunks * kChunk + 2, kCopied = 1 + ceil_div(Layer::kWidth, 8);
  static constexpr int kPitchBlocks = (kRead > kCopied ? kRead : kCopied) / 2 * 2 + 1;  // odd: rows begin in different banks
  static constexpr int kPitch = 8 * kPitchBlocks;
  static constexpr int kRows = (kBandTiles * 16 - 1) * Layer::kStride + Layer::kSize;
  static constexpr int kSharedBytes = kWarps * kRows * kPitch * static_cast<int>(sizeof(T));
  static constexpr int kStored = Layer::kOutWidth % 4 == 0 ? 2 : 1;  // tiles that are stored together
  static constexpr int kChunkBlocks = Layer::kStride * (kChunk - 1) + kBlocks;
};

// Loads kBlocks neighbouring blocks of 16 rows and 8 columns as operands A. `row` is the address of row lane % 16 of the first one.
template <int kBlocks>
__device__ __forceinline__ void load_blocks(unsigned (&a)[kBlocks][2], unsigned row, int lane) {
  const unsigned of_pair = row + lane / 16 * 16;
#pragma unroll
  for (int block = 0; block + 1 < kBlocks; block += 2) {
    unsigned m[4];
    load_matrices(m, of_pair + 16 * block);
    a[block][0] = m[0], a[block][1] = m[1], a[block + 1][0] = m[2], a[block + 1][1] = m[3];
  }
  if constexpr (kBlocks % 2 == 1) load_matrices(a[kBlocks - 1], row + 16 * (kBlocks - 1));
}

// The band matrices of a channel as operand B: output n of a tile takes column k of its blocks times tap k - 8 + kPad - kStride n.
template <typename Plan>
struct Bands {
  unsigned of[Layer::kSize][Plan::kBlocks];

  __device__ __forceinline__ Bands(const T* __restrict__ taps, int lane) {
    const int n = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < Layer::kSize; ++i) {
#pragma unroll
      for (int block = 0; block < Plan::kBlocks; ++block) {
        Vector<T, 2> pair;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int tap = 8 * block + 2 * t + half - 8 + Layer::kPad - Layer::kStride * n;
          const bool inside = static_cast<unsigned>(tap) < Layer::kSize;
          pair.value[half] = inside ? taps[i * Layer::kSize + (inside ? tap : 0)] : from_float<T>(0.0f);
        }
        of[i][block] = *reinterpret_cast<const unsigned*>(&pair);
      }
    }
  }
};

template <typename Plan>
__device__ __noinline__ float exact_sum(const T* window, const T* __restrict__ taps, float sum) {
  for (int i = 0; i < kTaps; ++i) {
    sum = fmaf(to_float(window[i / Layer::kSize * Plan::kPitch + i % Layer::kSize]), to_float(taps[i]), sum);
  }
  return sum;
}

template <typename Plan>
__device__ __forceinline__ void depthwise_bands(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ all_bias,
                                                int n, T* __restrict__ y) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  T* rows = reinterpret_cast<T*>(shared) + warp * Plan::kRows * Plan::kPitch;
  const unsigned unit = blockIdx.x * static_cast<unsigned>(Plan::kWarps) + warp;
  const unsigned planes = static_cast<unsigned>(n) * kChannels, plane = unit / Plan::kBands;
  if (plane >= planes) return;
  const int first_row = unit % Plan::kBands * Plan::kBandTiles * 16;
  const T* plane_of_x = x + static_cast<size_t>(plane) * Layer::kPlane;
  copy_rows<Plan::kRows, Plan::kPitch>(rows, plane_of_x, first_row * Layer::kStride - Layer::kPad, lane);
  zero_borders<Plan::kRows, Plan::kPitch>(rows, lane);
  const T* taps = w + plane % kChannels * kTaps;
  const float bias = to_float(all_bias[plane % kChannels]);
  const Bands<Plan> bands(taps, lane);
  copy_async_wait_all();
  __syncwarp();

  T* to = y + static_cast<size_t>(plane) * Layer::kOutPlane;
  const int g = lane / 4, t = lane % 4;
  const unsigned own_row = shared_address(rows + lane % 16 * Layer::kStride * Plan::kPitch);
#pragma unroll 1
  for (int tile = 0; tile < Plan::kBandTiles * Plan::kChunks; ++tile) {
    const int row = tile / Plan::kChunks * 16, chunk = tile % Plan::kChunks * Plan::kChunk;
    if (first_row + row >= Layer::kOutHeight) return;
    float sums[Plan::kChunk][4];
#pragma unroll
    for (int j = 0; j < Plan::kChunk; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[j][e] = bias;
    }
#pragma unroll
    for (int i = 0; i < Layer::kSize; ++i) {
      unsigned a[Plan::kChunkBlocks][2];
      const int from = (row * Layer::kStride + i) * Plan::kPitch + 8 * Layer::kStride * chunk;
      load_blocks(a, own_row + from * static_cast<int>(sizeof(T)), lane);
#pragma unroll
      for (int j = 0; j < Plan::kChunk; ++j) {
        const int first = Layer::kStride * j;
#pragma unroll
        for (int block = 0; block + 1 < Plan::kBlocks; block += 2) {
          mma_16x8x16<T>(sums[j], a[first + block][0], a[first + block][1], a[first + block + 1][0], a[first + block + 1][1],
                         bands.of[i][block], bands.of[i][block + 1]);
        }
        if constexpr (Plan::kBlocks % 2 == 1) {
          const auto& last = a[first + Plan::kBlocks - 1];
          mma_16x8x8<T>(sums[j], last[0], last[1], bands.of[i][Plan::kBlocks - 1]);
        }
      }
    }
    float probe = 0.0f;  // NaN after a sum that is not finite
#pragma unroll
    for (int e = 0; e < Plan::kChunk * 4; ++e) probe = fmaf(sums[e / 4][e % 4], 0.0f, probe);
    if (probe != probe) {
#pragma unroll
      for (int e = 0; e < Plan::kChunk * 4; ++e) {
        const int out_row = row + g + e % 4 / 2 * 8, column = 8 * (chunk + e / 4) + 2 * t + e % 2;
        if (first_row + out_row >= Layer::kOutHeight || column >= Layer::kOutWidth) continue;
        const T* window = rows + out_row * Layer::kStride * Plan::kPitch + kPack + column * Layer::kStride - Layer::kPad;
        sums[e / 4][e % 4] = exact_sum<Plan>(window, taps, bias);
      }
    }
    // Two neighbouring outputs of tile j.
    const auto finished = [&](int j, int half) {
      Vector<T, 2> pair;
#pragma unroll
      for (int e = 0; e < 2; ++e) pair.value[e] = activated<kActivation, T>(sums[j][2 * half + e]);
      return pair;
    };
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int out_row = first_row + row + g + 8 * half;
      T* to_row = to + out_row * Layer::kOutWidth;
      const bool in_plane = out_row < Layer::kOutHeight;
#pragma unroll
      for (int j = 0; j < Plan::kChunk; j += Plan::kStored) {
        if (j + 1 < Plan::kChunk && Plan::kStored == 2) {
          // Lanes exchange pairs, so that even ones have four outputs of tile j and odd ones of tile j + 1.
          const Vector<T, 2> left = finished(j, half), right = finished(j + 1, half);
          const Vector<T, 2> given = t % 2 == 0 ? right : left;
          const unsigned got = __shfl_xor_sync(kAllLanes, *reinterpret_cast<const unsigned*>(&given), 1);
          const Vector<T, 2> other = *reinterpret_cast<const Vector<T, 2>*>(&got);
          const Vector<T, 2> low = t % 2 == 0 ? left : other, high = t % 2 == 0 ? other : right;
          const int column = 8 * (chunk + j + t % 2) + t / 2 * 4;
          if (in_plane && column < Layer::kOutWidth) {
            store_vector(to_row + column, Vector<T, 4>{low.value[0], low.value[1], high.value[0], high.value[1]});
          }
          continue;
        }
        const Vector<T, 2> pair = finished(j, half);
        const int column = 8 * (chunk + j) + 2 * t;
        if constexpr (Layer::kOutWidth % 2 == 0) {
          if (in_plane && column < Layer::kOutWidth) store_vector(to_row + column, pair);
        } else {
          if (in_plane && column < Layer::kOutWidth) to_row[column] = pair.value[0];
          if (in_plane && column + 1 < Layer::kOutWidth) to_row[column + 1] = pair.value[1];
        }
      }
    }
  }
}
