// The 3x3 convolution of channels-last maps by wgmma (wgmma.cuh), Hopper's own instruction for its tensor cores, in fp16 and bfloat16. Tiles and
// stages: patch.cuh.
//
// Taps. 16 channels of a tile's pixels, with their border, lie in shared memory, and what 8 outputs of a row read for a tap lies together. It is one
// block of an operand, and another tap is the same operand at another address, also where pixels are swizzled: a swizzle depends on addresses alone.
// So x is copied once for nine taps, and no thread touches it.
//
// Roles. A block stays and takes tile after tile. Its first warpgroup lets the stages be filled (loads.cuh), the two others multiply. Where
// tiles are few, the blocks of a cluster divide the channels of one: each leaves its sums in its shared memory, adds up some pixels of all,
// in the same order always, and finishes these. Where pixels are few, such a block begins to copy the filters of its first steps before the
// kernel in front has ended, and allows the next launch when it has.
#pragma once

#include "channels_last/finish.cuh"
#include "channels_last/loads.cuh"

// The products of a half of each tile. Those of a step are under way while those of the next one begin.
template <typename Plan>
struct Products {
  const Ring<Plan>& ring;
  const int first_pixel, lane = threadIdx.x % 32;
  int before = -1;  // the stage of the step before, which products may still read
  Turn<Plan> turn;

  __device__ __forceinline__ Products(const Ring<Plan>& ring, int half)
      : ring(ring), first_pixel(kAcross > 1 ? 8 * half : kHalfRows * half * kBorderColumns) {}

  // Adds those of a step to sums. `meanwhile` is done while they are under way.
  template <typename Work>
  __device__ __forceinline__ void add(float (&sums)[kSums], const Work& meanwhile) {
    wait_for_bytes(ring.full(turn.stage), turn.parity);
    if constexpr (!kMapped) publish_to_units();  // what the copies of threads wrote
    const unsigned stage = ring.address + turn.stage * Plan::kStageBytes;
    const unsigned long long of_x = wgmma_operand<16, kBorderColumns * kPixelBytes, kPixelBytes>(stage + first_pixel * kPixelBytes);
    const unsigned long long of_filters = wgmma_operand<kTaps * kOfTap * 2, 128>(stage + Plan::kXBytes);
    wgmma_begin();
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      wgmma_multiply<T>(sums, of_filters + tap * kOfTap * 2 / 16, of_x + (tap / kSize * kBorderColumns + tap % kSize) * kPixelBytes / 16, true);
    }
    do_meanwhile(meanwhile);
    wgmma_wait<1>();
    leave();
    before = turn.stage;
    turn.advance();
  }
  __device__ __forceinline__ void add(float (&sums)[kSums]) {
    add(sums, [] {});
  }

  __device__ __forceinline__ void finish(float (&sums)[kSums]) {
    wgmma_finish_groups(sums);
    leave();
    before = -1;
  }

 private:
  __device__ __forceinline__ void leave() const {
    if (before >= 0 && lane == 0) arrive(ring.empty(before));
  }
};

// A warpgroup that multiplies its half of each tile.
template <typename Plan, bool kAdds>
__device__ __forceinline__ void multiply_tiles(const Ring<Plan>& ring, const Tensors& tensors) {
  const int half = warpgroup() - 1, filter_of_lane = threadIdx.x % kRole / 32 * 16 + filter_of_row(threadIdx.x % 32 / 4);
  const int tiles = tiles_of(tensors.n);
  StoredPixels<kAdds> stored(tensors, reinterpret_cast<T*>(ring.stages + Plan::kStored), half);
  Products<Plan> products(ring, half);
  float start[2];  // sums of a tile begin as biases
  const auto load_start = [&](int tile) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int filter = Place(tile).block * kFilterBlock + filter_of_lane + 2 * i;
      start[i] = bias_of(tensors, filter);
    }
  };
  load_start(blockIdx.x);
  constexpr int kStoring = smaller(stored.kParts / 2, kSteps);  // the steps in which the outputs of the tile before are stored
#pragma unroll 1
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    float sums[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = start[i / 2 % 2];
#pragma unroll
    for (int step = 0; step < kStoring; ++step) {
      products.add(sums, [&] {
        if (step == 0) stored.meet();
        store_parts<kStoring>(stored, step);
        if (step < kStoring - 1) return;
        stored.begin(Place(tile));
        load_start(tile + gridDim.x);
      });
    }
#pragma unroll 1
    for (int step = kStoring; step < kSteps; ++step) products.add(sums);
    products.finish(sums);
    stored.take(sums);
  }
  stored.meet();
  store_parts(stored);
}

// The same, where blocks of a cluster divide the channels of their only tile.
template <typename Plan, bool kAdds>
__device__ __forceinline__ void multiply_together(const Ring<Plan>& ring, const Tensors& tensors) {
  const int half = warpgroup() - 1, rank = blockIdx.x % Plan::kSplits;
  const Place place(blockIdx.x / Plan::kSplits);
  SharedOutputs<Plan, kAdds> outputs(tensors, place);
  // What is added comes while products are under way. Eight blocks have so few that it would only be in their way.
  constexpr bool kEarly = kAdds && Plan::kSplits < 8;
  if constexpr (kEarly) outputs.begin();
  Products<Plan> products(ring, half);
  float sums[kSums] = {};
#pragma unroll 1
  for (int step = Plan::first_step(rank); step < Plan::first_step(rank + 1); ++step) products.add(sums);
  products.finish(sums);
  float* const shared = reinterpret_cast<float*>(ring.stages);
  wait_for_group<2 * kRole>();  // both warpgroups have left the stages
  leave_sums<Plan>(shared, sums, threadIdx.x % kRole / 32 * 16, half * kHalfPixels);
  cluster_arrive();
  if constexpr (!kEarly) outputs.begin();
  cluster_wait();
  outputs.store(shared);
  cluster_arrive_relaxed();  // the others have read this block's memory
  cluster_wait();
}

template <typename Plan, bool kAdds>
__device__ __forceinline__ void channels_last_by_wgmma(unsigned char* memory, const Tensors& tensors) {
  constexpr bool kCopiesAhead = Plan::kAhead > 0;
  if constexpr (!kCopiesAhead) wait_for_previous_kernel();
  const Ring<Plan> ring(memory);
  const bool few = kCopiesAhead && are_few<kHeight * kWidth * smaller(kOfX, kFilters)>(tensors.n);
  if (threadIdx.x == 0) {
    ring.init();
    if (few) Loader<Plan>(tensors).begin_ahead(ring);
  }
  if constexpr (kMapped && kWholeImages) clear_last_row(ring);
  __syncthreads();
  if constexpr (kCopiesAhead) {
    wait_for_previous_kernel();
    if (few) allow_next_kernel();
  }
  in_roles<kLoadRegisters>([&] { Loader<Plan>(tensors).run(ring, few); },
                           [&] {
                             if constexpr (Plan::kSplits == 1) {
                               multiply_tiles<Plan, kAdds>(ring, tensors);
                             } else {
                               multiply_together<Plan, kAdds>(ring, tensors);
                             }
                           });
}
