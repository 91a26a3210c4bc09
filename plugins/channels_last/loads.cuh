// The warpgroup of by_wgmma.cuh that fills the stages: it lets everything be copied, and computes nothing but addresses.
#pragma once

#include "channels_last/patch.cuh"
#include "copies.cuh"

// A thread has the same units of each stage: two neighbours have the 16 channels of a pixel.
template <typename Patch>
struct Loader {
  static constexpr int kPixelsAtOnce = kRole / kEights, kUnits = ceil_div(Patch::kBorder, kPixelsAtOnce);
  static_assert(kPixelsAtOnce % Layer::kStride == 0);

  const Tensors& tensors;
  const int eight = threadIdx.x % kEights, first_pixel = threadIdx.x / kEights;
  int at[kUnits];  // where the thread's units begin in x; -1: nowhere

  __device__ __forceinline__ explicit Loader(const Tensors& tensors_) : tensors(tensors_) {}

  __device__ __forceinline__ bool exists(int unit) const { return first_pixel + unit * kPixelsAtOnce < Patch::kBorder; }

  __device__ __forceinline__ void find_units(const Place<Patch>& place) {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const int pixel = first_pixel + unit * kPixelsAtOnce;
      const int row = place.row * Layer::kStride + pixel / Patch::kBorderColumns - Layer::kPad;
      const SpotOfX<Patch> spot(row, place.column * Layer::kStride + pixel % Patch::kBorderColumns - Layer::kPad);
      at[unit] = row >= 0 && spot.exists(tensors.n) ? spot.of_all() * kChannels + eight * kEight : -1;
    }
  }

  __device__ __forceinline__ void copy_x(unsigned stage, int step) const {
    const unsigned to = stage + (eight * Patch::kNextEight + Patch::place(first_pixel)) * 16;
    const bool inside = kChannels % kDepth == 0 || step * kDepth + eight * kEight < kChannels;
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const bool copied = inside && at[unit] >= 0;  // others become zeros
      const T* const from = tensors.x + (copied ? at[unit] + step * kDepth : 0);
      if (exists(unit)) copy_async<16>(to + unit * (kPixelsAtOnce / Layer::kStride) * 16, from, copied ? 16 : 0);
    }
  }

  // One thread lets the filters be copied.
  __device__ __forceinline__ void copy_filters(unsigned stage, unsigned barrier, int block, int step) const {
    expect_bytes(barrier, Patch::kBlocks * Patch::kBlockBytes);
#pragma unroll
    for (int i = 0; i < Patch::kBlocks; ++i) {
      const int one = smaller(block + i, kFilterBlocks - 1);  // sums beyond the filters are not stored
      begin_bulk_copy(stage + Patch::kXBytes + i * Patch::kBlockBytes, tensors.filters + (one * kSteps + step) * kOfStep, Patch::kBlockBytes,
                      barrier);
    }
  }

  __device__ __forceinline__ void run(const Stages<Patch>& ring) {
    const int rank = blockIdx.x % Patch::kSplits, first = Patch::first_step(rank), last = Patch::first_step(rank + 1);
    Turn<Patch> turn;
#pragma unroll 1
    for (int tile = blockIdx.x / Patch::kSplits; tile < Patch::tiles(tensors.n); tile += gridDim.x / Patch::kSplits) {
      const Place<Patch> place(tile);
      find_units(place);
#pragma unroll 1
      for (int step = first; step < last; ++step) {
        const unsigned stage = ring.address + turn.stage * Patch::kStageBytes, full = ring.full(turn.stage);
        wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
        if (threadIdx.x == 0) copy_filters(stage, full, place.block, step);
        copy_x(stage, step);
        arrive_with_copies(full);
        turn.advance();
      }
    }
  }
};
