// The convolution of few channels by wgmma (wgmma.cuh), Hopper's own instruction for its tensor cores, in floats: 1 to 4 channels. Three products
// of fp16 numbers stand for one of floats (split_floats/split.cuh).
//
// A unit is two neighbouring columns of 4 channels of x, 16 bytes; channels that there are not are zero. At stride 2 the units of a row are
// pairs of columns, at stride 1 each column with its right neighbour. So what 8 neighbouring outputs read for a pair of taps lies together,
// one block of an operand, and another pair of taps is the same operand at another address, further by a unit, two units or a row.
//
// Mapping: a block stays and takes tile after tile of 8 columns and 16 rows of y. Its first warpgroup fills a ring of stages (stages.cuh) with
// what a tile reads of x, split. The two others multiply, in turns of one tile and the next: so one stores while the other multiplies.
// The rows of a product are 64 filters; they lie in shared memory, split once.
//
// A tile whose largest x is too small to be split, and each sum that is not finite, is computed again by plain multiply-adds.
#pragma once

#include "few_channels/layer.cuh"
#include "split_floats/split.cuh"
#include "split_floats/stages.cuh"
#include "wgmma.cuh"

constexpr int kLoadRegisters = 104;  // of a thread

struct Stem {
  static constexpr int kFilterBlock = 64, kUnitChannels = 4, kReaders = 4 /* warps */;
  // Pairs of taps, row by row: 8 rows of K each; a product has two of them.
  static constexpr int kPairs = ceil_div(kSize, 2), kEights = kSize * kPairs, kSteps = ceil_div(kEights, 2);
  // A tile of y, and what it reads of x in units; how many further the next pair of a row is.
  static constexpr int kColumns = 8, kRows = 16, kNextPair = kStride == 2 ? 1 : 2;
  static constexpr int kTilesAcross = ceil_div(Layer::kOutWidth, kColumns), kTilesDown = ceil_div(Layer::kOutHeight, kRows);
  static constexpr int kAcross = kColumns + (kPairs - 1) * kNextPair, kUnits = kAcross * ((kRows - 1) * kStride + kSize);
  // Bytes: x, hi or lo; a stage, with the largest x of each warp that loads; the filters at a pair of taps; all, hi or lo.
  static constexpr unsigned kPartBytes = kUnits * 16, kStageBytes = 2 * kPartBytes + 16;
  static constexpr unsigned kEightBytes = kFilterBlock * 16, kFilterBytes = 2 * kSteps * kEightBytes;
  static constexpr int kStages = 4;
  static constexpr unsigned kFiltersAt = kStages * (kStageBytes + 16 /* barriers */), kSharedBytes = kFiltersAt + 2 * kFilterBytes;

  // Where a pair of taps reads, in units from an output's first.
  static __device__ __forceinline__ constexpr int place(int eight) { return eight / kPairs * kAcross + eight % kPairs * kNextPair; }
  static __device__ __forceinline__ int tiles(int n) { return n * kTilesDown * kTilesAcross; }
};
static_assert(kChannels <= Stem::kUnitChannels);
using StemStages = Stages<Stem, Stem::kReaders>;

struct StemTile {
  int image, row, column;
  __device__ __forceinline__ explicit StemTile(int tile)
      : image(tile / (Stem::kTilesDown * Stem::kTilesAcross)),
        row(tile / Stem::kTilesAcross % Stem::kTilesDown * Stem::kRows),
        column(tile % Stem::kTilesAcross * Stem::kColumns) {}
};

// Eight numbers as two times 16 bytes.
struct Unit {
  uint4 hi, lo;
  __device__ __forceinline__ explicit Unit(const float (&of)[8]) {
    split(of[0], of[1], hi.x, lo.x), split(of[2], of[3], hi.y, lo.y);
    split(of[4], of[5], hi.z, lo.z), split(of[6], of[7], hi.w, lo.w);
  }
  __device__ __forceinline__ void store(unsigned char* to, unsigned from_hi_to_lo) const {
    *reinterpret_cast<uint4*>(to) = hi;
    *reinterpret_cast<uint4*>(to + from_hi_to_lo) = lo;
  }
};

// All threads lay the block's filters out as [hi or lo][pair of taps][filter][column, channel], divided by their scales.
__device__ __forceinline__ void split_filters(unsigned char* to, float* scales, const T* __restrict__ w, int first_filter) {
  constexpr int kOfFilter = kChannels * kTaps;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int f = warp; f < Stem::kFilterBlock; f += kWgmmaThreads / 32) {
    float most = 0.0f;
    for (int i = lane; i < kOfFilter && first_filter + f < kFilters; i += 32) most = fmaxf(most, fabsf(w[(first_filter + f) * kOfFilter + i]));
    const unsigned of_filter = __reduce_max_sync(kAllLanes, __float_as_uint(most));
    if (lane == 0) scales[f] = power_of_two(of_filter);
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < 2 * Stem::kSteps * Stem::kFilterBlock; i += kWgmmaThreads) {
    const int eight = i / Stem::kFilterBlock, f = i % Stem::kFilterBlock, row = eight / Stem::kPairs, pair = eight % Stem::kPairs;
    const float inverse = 1.0f / scales[f];
    float of[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int column = 2 * pair + e / Stem::kUnitChannels, channel = e % Stem::kUnitChannels;
      const bool exists = first_filter + f < kFilters && eight < Stem::kEights && column < kSize && channel < kChannels;
      of[e] = exists ? w[((first_filter + f) * kChannels + channel) * kTaps + row * kSize + column] * inverse : 0.0f;
    }
    Unit(of).store(to + i * 16, Stem::kFilterBytes);
  }
}

// The warpgroup that fills the stages.
__device__ __forceinline__ void load_tiles(const StemStages& ring, const T* __restrict__ x, int n) {
  Turn<Stem> turn;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < Stem::tiles(n); tile += gridDim.x) {
    const StemTile place(tile);
    const int top = place.row * kStride - Layer::kPad, left = place.column * kStride - Layer::kPad;
    const T* const image = x + static_cast<size_t>(place.image) * (kChannels * Layer::kPlane);
    unsigned char* const stage = ring.stages + turn.stage * Stem::kStageBytes;
    wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
    float most = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x; i < Stem::kUnits; i += kRole) {
      const int row = top + i / Stem::kAcross, first = left + i % Stem::kAcross * (kStride == 2 ? 2 : 1);
      float of[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int column = first + e / Stem::kUnitChannels, channel = e % Stem::kUnitChannels;
        const bool inside = static_cast<unsigned>(row) < Layer::kHeight && static_cast<unsigned>(column) < Layer::kWidth;
        of[e] = channel < kChannels && inside ? __ldg(image + channel * Layer::kPlane + row * Layer::kWidth + column) : 0.0f;
        most = fmaxf(most, fabsf(of[e]));
      }
      Unit(of).store(stage + i * 16, Stem::kPartBytes);
    }
    const unsigned most_of_warp = __reduce_max_sync(kAllLanes, __float_as_uint(most));
    if (threadIdx.x % 32 == 0) reinterpret_cast<unsigned*>(stage + 2 * Stem::kPartBytes)[threadIdx.x / 32] = most_of_warp;
    publish_to_units();
    arrive(ring.full(turn.stage));
    if (threadIdx.x == 0) arrive(ring.full(turn.stage));  // nothing is copied in bulk
    turn.advance();
  }
}

// A warpgroup that multiplies every second tile.
__device__ __forceinline__ void multiply_tiles(const StemStages& ring, const float* scales, const T* __restrict__ x, const T* __restrict__ w,
                                               const T* __restrict__ bias, int n, T* __restrict__ y, int first_filter) {
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float scale[2], offset[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int filter = warp * 16 + g + 8 * i;
    scale[i] = scales[filter], offset[i] = first_filter + filter < kFilters ? bias[first_filter + filter] : 0.0f;
  }
  const unsigned long long a = wgmma_operand<Stem::kEightBytes, 128>(ring.address + Stem::kFiltersAt);
  bool mine = threadIdx.x < 2 * kRole;
  Turn<Stem> turn;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < Stem::tiles(n); tile += gridDim.x, turn.advance(), mine = !mine) {
    if (!mine) continue;
    wait_for_bytes(ring.full(turn.stage), turn.parity);
    const unsigned stage = turn.stage * Stem::kStageBytes;
    const unsigned long long b = wgmma_operand<16, kStride * Stem::kAcross * 16>(ring.address + stage);
    float sums[64], low_sums[64];
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < Stem::kSteps; ++step) {
      // The second half of the rows of K: of the next pair of taps; beyond the last one the filters are zero.
      const int place = Stem::place(2 * step), next = 2 * step + 1 < Stem::kEights ? Stem::place(2 * step + 1) - place : 1;
      const unsigned long long b_hi = b + place + (static_cast<unsigned long long>(next - 1) << 16), b_lo = b_hi + Stem::kPartBytes / 16;
      const unsigned long long a_hi = a + step * (2 * Stem::kEightBytes / 16), a_lo = a_hi + Stem::kFilterBytes / 16;
      wgmma_multiply(sums, a_hi, b_hi, step > 0);
      wgmma_multiply(low_sums, a_hi, b_lo, step > 0);
      wgmma_multiply(low_sums, a_lo, b_hi, true);
    }
    const int4 largest = *reinterpret_cast<const int4*>(ring.stages + stage + 2 * Stem::kPartBytes);
    const int most = max(max(largest.x, largest.y), max(largest.z, largest.w));
    wgmma_finish(sums);
    wgmma_finish_with(low_sums);
    if (lane == 0) arrive(ring.empty(turn.stage));

    const StemTile place(tile);
    const int column = place.column + 2 * t;
    bool exact = true;
#pragma unroll
    for (int j = 0; j < 16; ++j) {  // rows
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int filter = first_filter + warp * 16 + g + 8 * i;
        float outputs[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& sum = sums[4 * j + 2 * i + e];
          sum = joined_sum<Stem::kSteps>(sum, low_sums[4 * j + 2 * i + e]);
          exact = exact && exact_sum(sum, most);
          outputs[e] = sum * scale[i];
        }
        if (filter >= kFilters) continue;
        T* const plane = y + (static_cast<size_t>(place.image) * kFilters + filter) * Layer::kOutPlane;
        store_outputs(plane, place.row + j, column, outputs, offset[i]);
      }
    }
    if (exact) continue;
    each_inexact(sums, [&](int) { return most; }, [&](int index) {
      const int row = place.row + index / 4, at = column + index % 2, filter = first_filter + warp * 16 + g + index / 2 % 2 * 8;
      if (filter >= kFilters || row >= Layer::kOutHeight || at >= Layer::kOutWidth) return;
      const T* const image = x + static_cast<size_t>(place.image) * (kChannels * Layer::kPlane);
      const float sum = plain_sum(image, w + filter * (kChannels * kTaps), row, at) + bias[filter];
      y[(static_cast<size_t>(place.image) * kFilters + filter) * Layer::kOutPlane + row * Layer::kOutWidth + at] = activate<kActivation>(sum);
    });
  }
}

__device__ __forceinline__ void few_channels_by_wgmma(unsigned char* memory, float* scales, const T* __restrict__ x, const T* __restrict__ w,
                                                      const T* __restrict__ bias, int n, T* __restrict__ y) {
  const StemStages ring(memory);
  const int first_filter = blockIdx.y * Stem::kFilterBlock;
  if (threadIdx.x == 0) ring.init();
  split_filters(memory + Stem::kFiltersAt, scales, w, first_filter);
  publish_to_units();
  __syncthreads();
  in_roles<kLoadRegisters>([&] { load_tiles(ring, x, n); }, [&] { multiply_tiles(ring, scales, x, w, bias, n, y, first_filter); });
}
