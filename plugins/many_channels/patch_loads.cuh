// The warpgroup of by_wgmma.cuh that fills the stages: it splits x, and lets the filters be copied, which are split already.
#pragma once

#include "many_channels/patch.cuh"

// A thread has the same units of each stage. The loads of the next ones are under way: of all, or of a part, a round.
template <typename Patch>
struct Loader {
  static constexpr int kMostAhead = 6, kNeeded = ceil_div(kEights * Patch::kBorder, kRole), kRounds = ceil_div(kNeeded, kMostAhead);
  static constexpr int kAhead = ceil_div(kNeeded, kRounds), kUnits = kRounds * kAhead;
  static_assert(kRole % Layer::kStride == 0);

  const T* x;
  const __half* filters;
  const int n, tiles;
  int thread;
  const int first_step, last_step;
  // What is loaded next: the tile, its 16 channels, and for each unit where its pixel is, or -1.
  int tile, step;
  int pixels[kUnits];
  float ahead[kAhead][kEight];

  __device__ __forceinline__ Loader(const T* x_, const __half* filters_, int n_)
      : x(x_),
        filters(filters_),
        n(n_),
        tiles(Patch::tiles(n_)),
        thread(threadIdx.x),
        first_step(Patch::first_step(blockIdx.x % Patch::kSplits)),
        last_step(Patch::first_step(blockIdx.x % Patch::kSplits + 1)),
        tile(blockIdx.x / Patch::kSplits),
        step(first_step) {}

  // The number of a unit (Patch::place); whether there is one.
  __device__ __forceinline__ int index(int unit) const { return thread + unit * kRole; }
  __device__ __forceinline__ bool exists(int unit) const { return index(unit) < kEights * Patch::kBorder; }

  __device__ __forceinline__ void find_pixels() {
    const Place<Patch> place(tile);
    // For many units there are no registers to keep what is the same for all tiles: it is computed again from `thread`.
    if constexpr (kRounds > 1) asm volatile("" : "+r"(thread));
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const int pixel = index(unit) % Patch::kBorder, across = pixel % Patch::kBorderColumns;
      const int row = place.row * Layer::kStride + pixel / Patch::kBorderColumns - Layer::kPadRows;
      const SpotOfX<Patch> spot(row, place.column * Layer::kStride + across - Layer::kPad);
      const bool is_read = Layer::kStride == 1 || across < Patch::kBorderColumns - 1;
      const bool inside = tile < tiles && exists(unit) && row >= 0 && is_read && spot.exists(n);
      pixels[unit] = inside ? spot.place(index(unit) / Patch::kBorder * kEight) : -1;
    }
  }

  __device__ __forceinline__ void load(int unit) {
    const int channel = step * kDepth + index(unit) / Patch::kBorder * kEight;
    const bool inside = pixels[unit] >= 0 && (kChannels % kDepth == 0 || channel < kChannels);
    // With many units, those outside are loaded too, from anywhere: for loads on a condition the compiler computes eight addresses, not one.
    const T* from = x + (kRounds == 1 || inside ? pixels[unit] + step * kDepth * Layer::kPlane : 0);
#pragma unroll
    for (int i = 0; i < kEight; ++i) ahead[unit % kAhead][i] = kRounds > 1 || inside ? __ldg(from + i * Layer::kPlane) : 0.0f;
    if (kRounds == 1) return;
#pragma unroll
    for (int i = 0; i < kEight; ++i) ahead[unit % kAhead][i] = inside ? ahead[unit % kAhead][i] : 0.0f;
  }

  // One thread begins to copy a stage's filters.
  __device__ __forceinline__ void copy_filters(unsigned to, unsigned barrier) const {
    expect_bytes(barrier, Patch::kBlocks * Patch::kBlockBytes);
    const int first = Place<Patch>(tile).filter / kFilterBlock;
#pragma unroll
    for (int i = 0; i < Patch::kBlocks * kEights; ++i) {
      // Beyond the channels x is zero, and sums beyond the filters are not stored: any number will do.
      const int block = i < kEights ? first : smaller(first + 1, ceil_div(kFilters, kFilterBlock) - 1);
      const int eight = smaller(step * kEights + i % kEights, kChannels / kEight - 1);
      const __half* from = filters + filter_at(block, eight, 0);
      begin_bulk_copy(to + i * Patch::kEightBytes, from, Patch::kEightBytes, barrier);
    }
  }

  __device__ __forceinline__ void advance() {
    if (++step < last_step) return;
    step = first_step;
    tile += gridDim.x / Patch::kSplits;
    find_pixels();
  }

  __device__ __forceinline__ void run(const Ring<Patch>& ring) {
    find_pixels();
#pragma unroll
    for (int unit = 0; unit < kAhead; ++unit) load(unit);
    Turn<Patch> turn;
#pragma unroll 1
    while (tile < tiles) {
      const unsigned stage = turn.stage * Patch::kStageBytes;
      unsigned char* const to = ring.stages + stage + Patch::place(thread) * 16;
      float most = 0.0f;
      wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
      if (thread == 0) copy_filters(ring.address + stage + Patch::kXBytes, ring.full(turn.stage));
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        if (unit + kAhead == kUnits) advance();  // from here on, units of the next stage are loaded
        Words hi, lo;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float a = ahead[unit % kAhead][2 * i], b = ahead[unit % kAhead][2 * i + 1];
          split(a, b, hi.value[i], lo.value[i]);
          most = fmaxf(most, fmaxf(fabsf(a), fabsf(b)));
        }
        if (exists(unit)) {
          unsigned char* const place = to + unit * (kRole / Layer::kStride) * 16;
          store_words(reinterpret_cast<unsigned*>(place), hi);
          store_words(reinterpret_cast<unsigned*>(place + Patch::kXUnits * 16), lo);
        }
        if constexpr (kRounds > 1) __syncwarp();  // else the compiler begins more loads than it has registers for
        load((unit + kAhead) % kUnits);
      }
      const int most_of_warp = static_cast<int>(__reduce_max_sync(kAllLanes, __float_as_uint(most)));
      if (thread % 32 == 0) ring.most[turn.stage * 4 + thread / 32] = most_of_warp;
      publish_to_units();
      arrive(ring.full(turn.stage));
      turn.advance();
    }
  }
};
