// The convolution of many channels by wgmma (wgmma.cuh), Hopper's own instruction for its tensor cores, in floats: with 3x3 filters, stride 1 or
// 2 and padding 1, or along one axis at stride 1. Three products of fp16 numbers stand for one of floats, as in tensor_core.cuh; here hi hi is
// summed alone over 16 channels, 144 products with nine taps. Tiles and stages: patch.cuh.
//
// Taps. 16 channels of a tile's pixels, with the border that the taps reach, lie in shared memory, split once. A pixel is 16 bytes there, 8 channels,
// and what 8 outputs of a row read for a tap lies together: it is one block of an operand, and another tap is the same operand at another
// address.
//
// Roles. A block stays and takes tile after tile. Its first warpgroup fills the stages (patch_loads.cuh), the two others multiply. Where
// tiles are few, the blocks of a cluster divide the channels of one: each leaves its sums in its shared memory, adds up some filters of all,
// in the same order always, and finishes these.
//
// A tile whose largest x is so small that the smallest fp16 number is not far below it, and each sum that is not finite, is computed again
// by plain multiply-adds.
#pragma once

#include "many_channels/patch_finish.cuh"
#include "many_channels/patch_loads.cuh"

// A warpgroup that multiplies its half of the pixels of each tile by the tile's filters.
template <typename Patch, bool kAdds>
__device__ __forceinline__ void multiply_tiles(const Ring<Patch>& ring, const Finish<Patch, kAdds>& finish) {
  const int half = warpgroup() - 1, warp = threadIdx.x % kRole / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int across = Patch::across(half), below = Patch::below(half), block = Patch::block(half);
  const int rank = blockIdx.x % Patch::kSplits, first_step = Patch::first_step(rank), last_step = Patch::first_step(rank + 1);
  const int tiles = Patch::tiles(finish.n);
  Turn<Patch> turn;
#pragma unroll 1
  for (int tile = blockIdx.x / Patch::kSplits; tile < tiles; tile += gridDim.x / Patch::kSplits) {
    float sums[64], low_sums[64];
    int most = 0;
#pragma unroll 1
    for (int step = first_step; step < last_step; ++step) {
      wait_for_bytes(ring.full(turn.stage), turn.parity);
      const unsigned stage = ring.address + turn.stage * Patch::kStageBytes;
      const unsigned long long of_x = wgmma_operand<Patch::kNextEight * 16, Patch::kNextPixels>(stage + (below * Patch::kBorderColumns + across) * 16);
      const unsigned long long of_filters = wgmma_operand<Patch::kEightBytes, 128>(stage + Patch::kXBytes + block * Patch::kBlockBytes);
      float part[64];
      wgmma_begin();
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const unsigned long long b_hi = of_x + Patch::tap(tap), b_lo = b_hi + Patch::kXUnits;
        const unsigned long long a_hi = of_filters + tap * 2 * Patch::kFilterBytes / 16, a_lo = a_hi + Patch::kFilterBytes / 16;
        wgmma_multiply(part, a_hi, b_hi, tap > 0);
        wgmma_multiply(low_sums, a_hi, b_lo, tap > 0 || step > first_step);
        wgmma_multiply(low_sums, a_lo, b_hi, true);
      }
      const int4 largest = *reinterpret_cast<const int4*>(ring.most + turn.stage * 4);
      most = max(max(max(most, largest.x), max(largest.y, largest.z)), largest.w);
      wgmma_finish(part);
      wgmma_finish_with(low_sums);
      if (lane == 0) arrive(ring.empty(turn.stage));
#pragma unroll
      for (int i = 0; i < 64; ++i) sums[i] = step == first_step ? part[i] : sums[i] + part[i];
      turn.advance();
    }
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = joined_sum<kTaps>(sums[i], low_sums[i]);

    const Place<Patch> place(tile);
    if constexpr (Patch::kSplits == 1) {
      finish.lane(sums, most, place.row + below, place.column + across + 2 * t, place.filter + block * kFilterBlock + warp * 16 + g);
    } else {
      float* const shared = reinterpret_cast<float*>(ring.stages);
      wait_for_group<2 * kRole>();  // both warpgroups have left the stages
      if (threadIdx.x == kRole) *ring.most = most;
#pragma unroll
      for (int i = 0; i < 64; i += 2) {
        const int filter = block * kFilterBlock + warp * 16 + g + i / 2 % 2 * 8, pixel = (half - block) * kRole + i / 4 * 8 + 2 * t;
        *reinterpret_cast<float2*>(shared + filter * Patch::kSumPitch + pixel) = make_float2(sums[i], sums[i + 1]);
      }
      cluster_arrive();
      cluster_wait();
      finish.share(shared, ring.most, place);
      cluster_arrive_relaxed();  // the others have read this block's memory
      cluster_wait();
      return;  // these blocks have one tile
    }
  }
}

template <typename Patch, bool kAdds>
__device__ __forceinline__ void many_channels_by_wgmma(unsigned char* memory, const Finish<Patch, kAdds>& finish) {
  const Ring<Patch> ring(memory);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  in_roles<kLoadRegisters>([&] { Loader<Patch>(finish.x, finish.filters, finish.n).run(ring); },
                           [&] { multiply_tiles<Patch, kAdds>(ring, finish); });
}
