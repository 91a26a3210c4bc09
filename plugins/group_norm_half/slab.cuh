// group_norm of channels that lie last, in 16 bits: the norm of some groups of an image, a slab of its channels.
//
// A thread has 8 neighbouring channels, 16 bytes, of some pixels. It adds up each channel; a block adds up its threads, then the channels of a
// group, and the blocks of a cluster tell each other their groups' sums.
#pragma once

#include "block_cluster.cuh"
#include "bulk.cuh"
#include "rows.cuh"
#include "windows/activation.cuh"

namespace group_norm {

using T = TYPE_T;
constexpr int kChannels = AXIS_C, kOfGroup = kChannels / ATTR_GROUP, kPixels = AXIS_H * AXIS_W;
constexpr float kEpsilon = ATTR_EPSILON;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
constexpr int kThreads = 256, kWarps = kThreads / 32, kEight = 8;

// A slab is whole groups and whole eights: 32 channels or more, where the image can be divided so.
constexpr int kDivisor = kOfGroup % 8 == 0 ? 8 : divisor_of(kOfGroup), kUnit = kOfGroup * kEight / kDivisor;
constexpr bool kTwo = kUnit < 32 && kChannels % (2 * kUnit) == 0, kFour = kTwo && kUnit < 16 && kChannels % (4 * kUnit) == 0;
constexpr int kSlab = kUnit * (kFour ? 4 : kTwo ? 2 : 1), kSlabs = kChannels / kSlab, kSlabGroups = kSlab / kOfGroup;
constexpr int kEights = kSlab / kEight, kRows = kThreads / kEights;  // pixels that a block has at a time
constexpr int kAtOnce = smaller(kSlab, kThreads), kParts = kThreads / kAtOnce;  // of the threads that add up a channel

template <int kBlocks>
struct Shared {
  unsigned long long all_sent[2];
  float rows[kThreads * kEight];  // of each thread, its channels
  float columns[larger(kSlab, kThreads)];  // of each part of the threads, all channels
  float parts[2][kBlocks][kSlabGroups], totals[2][kSlabGroups];
};

// What is added to x before: nothing, or a number for each channel of an image.
struct Nothing {
  static constexpr bool kAdds = false;
};
struct OfChannels {
  static constexpr bool kAdds = true;
  const T* __restrict__ added;  // [n, C]
};

template <int kBlocks, bool kHeld>
struct Slab {
  static constexpr int kOfBlock = ceil_div(kPixels, kBlocks), kEach = ceil_div(kOfBlock, kRows);
  Shared<kBlocks>& shared;
  const int rank = blockIdx.x % kBlocks, slab = blockIdx.x / kBlocks % kSlabs;
  const int eight = threadIdx.x % kEights, row = threadIdx.x / kEights;
  const int first = rank * kOfBlock + row, end = row < kRows ? smaller((rank + 1) * kOfBlock, kPixels) : 0;
  const size_t image = blockIdx.x / (kBlocks * kSlabs);
  const int channel = slab * kSlab + eight * kEight;  // the first of this thread's
  const size_t start = image * kPixels * kChannels + channel;  // in the image's first pixel
  Pack16<T> held[kHeld ? kEach : 1];

  __device__ __forceinline__ explicit Slab(Shared<kBlocks>& shared_) : shared(shared_) {}

  // Makes the barriers, which other blocks may count on after cluster_wait.
  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) begin_barrier(shared_address(&shared.all_sent[i]), sizeof(shared.parts[i]));
    }
    cluster_arrive_relaxed();
  }

  __device__ __forceinline__ void load(const T* __restrict__ x) {
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (first + i * kRows < end) held[i] = load16(x + start + static_cast<size_t>(first + i * kRows) * kChannels);
      }
    }
  }

  // Calls what(eight channels of a pixel, their place in the tensor) for each of this thread's pixels.
  template <typename What>
  __device__ __forceinline__ void each(const T* __restrict__ x, const What& what) const {
#pragma unroll(kHeld ? kEach : 4)
    for (int i = 0; i < kEach; ++i) {
      if (first + i * kRows >= end) break;
      const size_t place = start + static_cast<size_t>(first + i * kRows) * kChannels;
      what(kHeld ? held[kHeld ? i : 0] : load16(x + place), place);
    }
  }

  // Adds up what all threads have of each channel, to a sum for each group of the slab. `turn`: 0, then 1.
  __device__ __forceinline__ void add_up(const float (&mine)[kEight], int turn) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row < kRows) {
#pragma unroll
      for (int e = 0; e < kEight; ++e) shared.rows[row * kSlab + eight * kEight + e] = mine[e];
    }
    __syncthreads();
    if (const int part = threadIdx.x / kAtOnce; part < kParts) {
      for (int channel = threadIdx.x % kAtOnce; channel < kSlab; channel += kAtOnce) {
        float sum = 0.0f;
        for (int i = part; i < kRows; i += kParts) sum += shared.rows[i * kSlab + channel];
        shared.columns[part * kSlab + channel] = sum;
      }
    }
    __syncthreads();
    for (int group = warp; group < kSlabGroups; group += kWarps) {
      float sum = 0.0f;
      for (int i = lane; i < kOfGroup * kParts; i += 32) sum += shared.columns[i / kOfGroup * kSlab + group * kOfGroup + i % kOfGroup];
      sum = lanes_sum<32>(sum);
      float* const to = &shared.parts[turn][kBlocks > 1 ? rank : 0][group];
      if constexpr (kBlocks > 1) {
        if (lane < kBlocks) send_remote(shared_address(to), shared_address(&shared.all_sent[turn]), lane, sum);
      } else {
        if (lane == 0) *to = sum;
      }
    }
    if constexpr (kBlocks > 1) {
      wait_for_remote(shared_address(&shared.all_sent[turn]));
    } else {
      __syncthreads();
    }
    for (int group = threadIdx.x; group < kSlabGroups; group += kThreads) {
      float sum = 0.0f;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) sum += shared.parts[turn][block][group];
      shared.totals[turn][group] = sum;
    }
    __syncthreads();
  }

  __device__ __forceinline__ float total(int e, int turn) const { return shared.totals[turn][(eight * kEight + e) / kOfGroup]; }
};

template <int kBlocks, bool kHeld, typename Added>
__device__ __forceinline__ void norm_of_slab(const T* __restrict__ x, Added added, const T* __restrict__ scale, const T* __restrict__ bias,
                                             T* __restrict__ y, Shared<kBlocks>& shared) {
  constexpr float kShare = 1.0f / (static_cast<float>(kOfGroup) * kPixels);
  Slab<kBlocks, kHeld> slab(shared);
  if constexpr (kBlocks > 1) slab.begin();
  slab.load(x);
  float sums[kEight] = {}, mean[kEight], more[kEight] = {};
  if constexpr (Added::kAdds) {
    const Pack16<T> of = load16(added.added + slab.image * kChannels + slab.channel);
#pragma unroll
    for (int e = 0; e < kEight; ++e) more[e] = to_float(of.value[e]);
  }
  const auto value = [&](const Pack16<T>& of, int e) { return Added::kAdds ? to_float(of.value[e]) + more[e] : to_float(of.value[e]); };
  slab.each(x, [&](const Pack16<T>& of, size_t) {
#pragma unroll
    for (int e = 0; e < kEight; ++e) sums[e] += value(of, e);
  });
  if constexpr (kBlocks > 1) cluster_wait();
  slab.add_up(sums, 0);
#pragma unroll
  for (int e = 0; e < kEight; ++e) mean[e] = slab.total(e, 0) * kShare, sums[e] = 0.0f;
  slab.each(x, [&](const Pack16<T>& of, size_t) {
#pragma unroll
    for (int e = 0; e < kEight; ++e) {
      const float distance = value(of, e) - mean[e];
      sums[e] = fmaf(distance, distance, sums[e]);
    }
  });
  slab.add_up(sums, 1);
  const Pack16<T> scales = load16(scale + slab.channel), biases = load16(bias + slab.channel);
  float factor[kEight], offset[kEight];
#pragma unroll
  for (int e = 0; e < kEight; ++e) {
    factor[e] = rsqrtf(slab.total(e, 1) * kShare + kEpsilon) * to_float(scales.value[e]);
    offset[e] = to_float(biases.value[e]);
  }
  slab.each(x, [&](const Pack16<T>& of, size_t place) {
    Pack16<T> out;
#pragma unroll
    for (int e = 0; e < kEight; ++e) out.value[e] = activated<kActivation, T>(fmaf(value(of, e) - mean[e], factor[e], offset[e]));
    store_vector(y + place, out);
  });
}

}  // namespace group_norm
