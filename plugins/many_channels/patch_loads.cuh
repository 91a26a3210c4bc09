// The warpgroup of by_wgmma.cuh that fills the stages: it splits x, and lets the filters be copied, which are split already.
#pragma once

#include "many_channels/patch.cuh"

// A thread has units of a pixel and 8 channels.
template <typename Patch>
struct Loader {
  static constexpr int kUnits = ceil_div(kEights * Patch::kBorder, kRole);

  const T* x;
  const __half* filters;
  const int n, tiles, thread;
  const int first_step, last_step;
  // What is loaded next: the tile, its 16 channels, and for each unit where its pixel is, or -1.
  int tile, step;
  int pixels[kUnits];
  float ahead[kUnits][kEight];

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

  // The place of a unit in shared memory, in units; whether there is one.
  __device__ __forceinline__ int index(int unit) const { return thread + unit * kRole; }
  __device__ __forceinline__ bool exists(int unit) const { return index(unit) < kEights * Patch::kBorder; }

  __device__ __forceinline__ void find_pixels() {
    const Place<Patch> place(tile);
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const int pixel = index(unit) % Patch::kBorder;
      const int row = place.row + pixel / Patch::kBorderColumns - 1;
      const Spot<Patch> spot(row, place.column + pixel % Patch::kBorderColumns - 1);
      const bool inside = tile < tiles && exists(unit) && row >= 0 && spot.exists(n);
      pixels[unit] = inside ? (spot.image * kChannels + index(unit) / Patch::kBorder * kEight) * Layer::kPlane + spot.in_plane() : -1;
    }
  }

  __device__ __forceinline__ void load(int unit) {
    const int channel = step * kDepth + index(unit) / Patch::kBorder * kEight;
    const bool inside = pixels[unit] >= 0 && (kChannels % kDepth == 0 || channel < kChannels);
    const T* from = x + (pixels[unit] + step * kDepth * Layer::kPlane);
#pragma unroll
    for (int i = 0; i < kEight; ++i) ahead[unit][i] = inside ? __ldg(from + i * Layer::kPlane) : 0.0f;
  }

  // One thread begins to copy a stage's filters.
  __device__ __forceinline__ void copy_filters(unsigned to, unsigned barrier) const {
    expect_bytes(barrier, kEights * Patch::kEightBytes);
    const int block = Place<Patch>(tile).filter / kFilterBlock;
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      // Beyond the channels x is zero, and any number will do.
      const int eight = smaller(step * kEights + i, kChannels / kEight - 1);
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
    for (int unit = 0; unit < kUnits; ++unit) load(unit);
    Turn<Patch> turn;
#pragma unroll 1
    while (tile < tiles) {
      const unsigned stage = turn.stage * Patch::kStageBytes;
      unsigned char* const to = ring.stages + stage + thread * 16;
      float most = 0.0f;
      wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
      if (thread == 0) copy_filters(ring.address + stage + Patch::kXBytes, ring.full(turn.stage));
      advance();
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        Words hi, lo;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float a = ahead[unit][2 * i], b = ahead[unit][2 * i + 1];
          split(a, b, hi.value[i], lo.value[i]);
          most = fmaxf(most, fmaxf(fabsf(a), fabsf(b)));
        }
        if (exists(unit)) {
          store_words(reinterpret_cast<unsigned*>(to + unit * kRole * 16), hi);
          store_words(reinterpret_cast<unsigned*>(to + unit * kRole * 16 + kEights * Patch::kPixelBytes), lo);
        }
        load(unit);
      }
      const int most_of_warp = static_cast<int>(__reduce_max_sync(kAllLanes, __float_as_uint(most)));
      if (thread % 32 == 0) ring.most[turn.stage * 4 + thread / 32] = most_of_warp;
      wgmma_publish();
      arrive(ring.full(turn.stage));
      turn.advance();
    }
  }
};
