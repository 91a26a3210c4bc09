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

// Adds a share of the channels of a half of a tile to its sums. The products of a step are under way while those of the next one begin.
template <typename Plan>
__device__ __forceinline__ void multiply_half(const Stages<Plan>& ring, Turn<Plan>& turn, int half, float (&sums)[kSums]) {
  const int rank = blockIdx.x % Plan::kSplits, last = Plan::first_step(rank + 1), lane = threadIdx.x % 32;
  const int first_pixel = kAcross > 1 ? 8 * half : kHalfRows * half * kBorderColumns;
  int before = -1;  // the stage of the step before
#pragma unroll 1
  for (int step = Plan::first_step(rank); step < last; ++step) {
    wait_for_bytes(ring.full(turn.stage), turn.parity);
    publish_to_units();  // what the copies of threads wrote
    const unsigned stage = ring.address + turn.stage * Plan::kStageBytes;
    const unsigned long long of_x = wgmma_operand<kBorder * 16, kBorderColumns * 16>(stage + first_pixel * 16);
    const unsigned long long of_filters = wgmma_operand<kTaps * kOfTap * 2, 128>(stage + Plan::kXBytes);
    wgmma_begin();
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      wgmma_multiply<T>(sums, of_filters + tap * kOfTap * 2 / 16, of_x + tap / kSize * kBorderColumns + tap % kSize, true);
    }
    wgmma_wait<1>();
    if (before >= 0 && lane == 0) arrive(ring.empty(before));
    before = turn.stage;
    turn.advance();
  }
  wgmma_finish(sums);
  if (lane == 0) arrive(ring.empty(before));
}

// A warpgroup that multiplies its half of each tile.
template <typename Plan, bool kAdds>
__device__ __forceinline__ void multiply_tiles(const Stages<Plan>& ring, const Tensors& tensors) {
  const int half = threadIdx.x / kRole - 1, warp = threadIdx.x % kRole / 32, lane = threadIdx.x % 32;
  Turn<Plan> turn;
#pragma unroll 1
  for (int tile = blockIdx.x / Plan::kSplits; tile < tiles_of(tensors.n); tile += gridDim.x / Plan::kSplits) {
    const Place place(tile);
    const int filter = place.block * kFilterBlock + warp * 16;
    float sums[kSums];
    if constexpr (Plan::kSplits == 1) {
      const Outputs<kAdds> outputs(tensors, place, half, filter);
      float start[2];  // sums begin as biases
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int of_row = filter + filter_of_row(lane / 4) + 2 * i;
        start[i] = of_row < kFilters ? to_float(tensors.bias[of_row]) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] = start[i / 2 % 2];
      multiply_half(ring, turn, half, sums);
      outputs.store(sums);
    } else {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] = 0.0f;
      multiply_half(ring, turn, half, sums);
      float* const shared = reinterpret_cast<float*>(ring.stages);
      wait_for_group<2 * kRole>();  // both warpgroups have left the stages
      leave_sums<Plan>(shared, sums, warp * 16, half * kHalfPixels);
      cluster_arrive();
      const SharedOutputs<Plan, kAdds> outputs(tensors, place);
      cluster_wait();
      outputs.store(shared);
      cluster_arrive_relaxed();  // the others have read this block's memory
      cluster_wait();
      return;  // these blocks have one tile
    }
  }
}

template <typename Plan, bool kAdds>
__device__ __forceinline__ void channels_last_by_wgmma(unsigned char* memory, const Tensors& tensors) {
  const Stages<Plan> ring(memory);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  in_roles<kLoadRegisters>([&] { Loader<Plan>(tensors).run(ring); }, [&] { multiply_tiles<Plan, kAdds>(ring, tensors); });
}
