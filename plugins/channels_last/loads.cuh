// The warpgroup of by_wgmma.cuh that fills the stages: it lets everything be copied, and computes nothing but addresses. Boxes need one thread of it.
#pragma once

#include "channels_last/patch.cuh"
#include "copies.cuh"

// Puts zeros behind a tile's images, where no box comes.
template <typename Plan>
__device__ __forceinline__ void clear_last_row(const Ring<Plan>& ring) {
  constexpr int kUnits = (kBorder - kBoxPixels) * kEights;
  for (int i = threadIdx.x; i < Plan::kStages * kUnits; i += kWgmmaThreads) {
    const unsigned to = i / kUnits * Plan::kStageBytes + kBoxPixels * kPixelBytes + i % kUnits * 16;
    *reinterpret_cast<uint4*>(ring.stages + to) = make_uint4(0, 0, 0, 0);
  }
  publish_to_units();
}

// A thread has the same units of each stage: two neighbours have the 16 channels of a pixel.
template <typename Plan>
struct Loader {
  static constexpr int kPixelsAtOnce = kRole / kEights, kUnits = ceil_div(kBorder, kPixelsAtOnce);
  static_assert(kPixelsAtOnce * kPixelBytes % kSwizzleAlign == 0);  // a thread's units are swizzled alike
  static constexpr unsigned kStepBytes = (kMapped ? kBoxPixels * kPixelBytes : 0) + Plan::kFilterBytes;  // that one thread asks for

  const Tensors& tensors;
  const int eight = threadIdx.x % kEights, first_pixel = threadIdx.x / kEights;
  int at[kUnits];  // where the thread's units begin in x, or their pixel where two tensors are joined; -1: nowhere

  __device__ __forceinline__ explicit Loader(const Tensors& tensors_) : tensors(tensors_) {}

  __device__ __forceinline__ bool exists(int unit) const { return first_pixel + unit * kPixelsAtOnce < kBorder; }

  __device__ __forceinline__ void find_units(const Place& place) {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const int pixel = first_pixel + unit * kPixelsAtOnce;
      const int down = pixel / kBorderColumns - kPad, column = place.column + pixel % kBorderColumns - kPad;
      ImageSpot spot(kWholeTiles ? place.row : place.row + down, column);
      if (kWholeTiles) spot.row += down;  // the row before the first, and the one behind the last, are no other image's
      const bool inside = spot.row >= 0 && place.row + down >= 0 && spot.exists(tensors.n);
      at[unit] = !inside ? -1 : kJoined > 0 ? spot.of_all() : spot.of_all() * kChannels + eight * kEight;
    }
  }

  __device__ __forceinline__ void copy_x(unsigned stage, int step) const {
    const unsigned to = swizzled<kPixelBytes>(stage + first_pixel * kPixelBytes + eight * 16);
    const int channel = step * kDepth + eight * kEight;
    const bool inside = kChannels % kDepth == 0 || channel < kChannels;
    const T* const tensor = is_joined(channel) ? tensors.other : tensors.x;
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const bool copied = inside && at[unit] >= 0;  // others become zeros
      const T* const from = tensor + (!copied ? 0 : kJoined > 0 ? at_pixel(at[unit], channel) : at[unit] + step * kDepth);
      if (exists(unit)) copy_async<16>(to + unit * kPixelsAtOnce * kPixelBytes, from, copied ? bytes_of_unit(channel) : 0);
    }
  }

  __device__ __forceinline__ void prefetch_maps() const {
    if constexpr (kMapped) prefetch_map(tensors.map_of_x);
    if constexpr (kMapped && kJoined > 0) prefetch_map(tensors.map_of_other);
  }

  __device__ __forceinline__ void copy_box(unsigned stage, const Place& place, int step, unsigned full) const {
    const int row = (kWholeTiles ? place.row % kImageRows : 0) - kPad;
    begin_step_copy(stage, tensors, place.row / kImageRows, row, place.column - kPad, step, full);
  }

  __device__ __forceinline__ void begin_filters(unsigned stage, const Place& place, int step, unsigned full) const {
    begin_bulk_copy(stage + Plan::kXBytes, tensors.filters + (place.block * kSteps + step) * kOfStep, Plan::kFilterBytes, full);
  }

  // What one thread does before it waits for the kernel in front: the first steps of the block's only tile get their filters.
  __device__ __forceinline__ void begin_ahead(const Ring<Plan>& ring) const {
    prefetch_maps();
    const Place place(blockIdx.x / Plan::kSplits);
    const int first = Plan::first_step(blockIdx.x % Plan::kSplits);
#pragma unroll
    for (int i = 0; i < Plan::kAhead; ++i) {
      expect_bytes(ring.full(i), kStepBytes);
      begin_filters(ring.address + i * Plan::kStageBytes, place, first + i, ring.full(i));
    }
  }

  __device__ __forceinline__ void run(const Ring<Plan>& ring, bool begun) {
    const int rank = blockIdx.x % Plan::kSplits, first = Plan::first_step(rank), last = Plan::first_step(rank + 1);
    Turn<Plan> turn;
    if constexpr (kMapped) {
      if (threadIdx.x != 0) return;
      if (!begun) prefetch_maps();
    }
#pragma unroll 1
    for (int tile = blockIdx.x / Plan::kSplits; tile < tiles_of(tensors.n); tile += gridDim.x / Plan::kSplits) {
      const Place place(tile);
      if constexpr (!kMapped) find_units(place);
#pragma unroll 1
      for (int step = first; step < last; ++step) {
        const unsigned stage = ring.address + turn.stage * Plan::kStageBytes, full = ring.full(turn.stage);
        wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
        if (threadIdx.x == 0) {
          const bool ahead = begun && step < first + Plan::kAhead;
          if (!ahead) expect_bytes(full, kStepBytes);
          if constexpr (kMapped) copy_box(stage, place, step, full);
          if (!ahead) begin_filters(stage, place, step, full);
        }
        if constexpr (!kMapped) {
          copy_x(stage, step);
          arrive_with_copies(full);
        }
        turn.advance();
      }
    }
  }
};
