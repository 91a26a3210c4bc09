// The 3x3 convolution of channels-last maps by wgmma (wgmma.cuh), Hopper's own instruction for its tensor cores, in fp16 and bfloat16. Tiles and
// stages: patch.cuh.
//
// Taps. 16 channels of a tile's pixels, with their border, lie in shared memory as they are in device memory: 8 channels of a pixel are 16
// bytes, and what 8 outputs of a row read for a tap lies together. It is one block of an operand, and another tap is the same operand at another
// address. So x is copied once for nine taps, and no thread touches it.
//
// Roles. A block stays and takes tile after tile. Its first warpgroup lets the stages be filled (loads.cuh), the two others multiply. Where
// tiles are few, the blocks of a cluster divide the channels of one: each leaves its sums in its shared memory, adds up some pixels of all,
// in the same order always, and finishes these.
#pragma once

#include "channels_last/finish.cuh"
#include "channels_last/loads.cuh"

// A warpgroup that multiplies its half of each tile.
template <typename Patch, bool kAdds>
__device__ __forceinline__ void multiply_tiles(const Stages<Patch>& ring, const Tensors& tensors) {
  const int half = threadIdx.x / kRole - 1, warp = threadIdx.x % kRole / 32, lane = threadIdx.x % 32;
  const int across = Patch::across(half), below = Patch::below(half), block = Patch::block(half);
  const int rank = blockIdx.x % Patch::kSplits, first_step = Patch::first_step(rank), last_step = Patch::first_step(rank + 1);
  Turn<Patch> turn;
#pragma unroll 1
  for (int tile = blockIdx.x / Patch::kSplits; tile < Patch::tiles(tensors.n); tile += gridDim.x / Patch::kSplits) {
    const Place<Patch> place(tile);
    const int filter = (place.block + block) * kFilterBlock + warp * 16;
    // Sums begin as biases; blocks that divide the channels add these when they are together.
    float start[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int of_row = filter + filter_of_row(lane / 4) + 2 * i;
      start[i] = Patch::kSplits == 1 && of_row < kFilters ? to_float(tensors.bias[of_row]) : 0.0f;
    }
    float sums[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = start[i / 2 % 2];
    // The products of a step are under way while those of the next one begin.
    int before = -1;  // the stage of the step before
#pragma unroll 1
    for (int step = first_step; step < last_step; ++step) {
      wait_for_bytes(ring.full(turn.stage), turn.parity);
      publish_to_units();  // what the copies of threads wrote
      const unsigned stage = ring.address + turn.stage * Patch::kStageBytes;
      const unsigned long long of_x =
          wgmma_operand<Patch::kNextEight * 16, Patch::kBorderColumns * 16>(stage + (below * Patch::kBorderColumns + across) * 16);
      const unsigned long long of_filters = wgmma_operand<Patch::kEightBytes, 128>(stage + Patch::kXBytes + block * Patch::kBlockBytes);
      wgmma_begin();
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) wgmma_multiply<T>(sums, of_filters + tap * Patch::kFilterBytes / 16, of_x + Patch::tap(tap), true);
      wgmma_wait<1>();
      if (before >= 0 && lane == 0) arrive(ring.empty(before));
      before = turn.stage;
      turn.advance();
    }
    wgmma_finish(sums);
    if (lane == 0) arrive(ring.empty(before));
    if constexpr (Patch::kSplits == 1) {
      finish_lane<Patch, kAdds>(tensors, sums, filter, place.row + below, place.column + across);
    } else {
      float* const shared = reinterpret_cast<float*>(ring.stages);
      wait_for_group<2 * kRole>();  // both warpgroups have left the stages
      leave_sums<Patch>(shared, sums, block * kFilterBlock + warp * 16, (half - block) * 8 * kHalfRows);
      cluster_arrive();
      cluster_wait();
      finish_share<Patch, kAdds>(tensors, shared, place);
      cluster_arrive_relaxed();  // the others have read this block's memory
      cluster_wait();
      return;  // these blocks have one tile
    }
  }
}

template <typename Patch, bool kAdds>
__device__ __forceinline__ void channels_last_by_wgmma(unsigned char* memory, const Tensors& tensors) {
  const Stages<Patch> ring(memory);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  if (threadIdx.x < kRole) {
    keep_registers<kLoadRegisters>();
    Loader<Patch>(tensors).run(ring);
  } else {
    take_registers<kMultiplyRegisters>();
    multiply_tiles<Patch, kAdds>(ring, tensors);
  }
}
