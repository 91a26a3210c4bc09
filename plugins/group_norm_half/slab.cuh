// group_norm of channels that lie last, in 16 bits: the norm of some groups of an image, a slab of its channels.
//
// A thread has 8 neighbouring channels, 16 bytes, of some pixels. Of what it has of a group it knows the mean and the squared distances from it;
// those of the block's threads are joined, then those of a cluster's blocks.
#pragma once

#include "block_cluster.cuh"
#include "bulk.cuh"
#include "group_norm/part.cuh"
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
constexpr int kNear = (kOfGroup - kDivisor + kEight - 1) / kOfGroup + 1;  // groups that an eight may be of
constexpr int kWide = (kEight - kDivisor + kOfGroup - 1) / kEight + 1;  // eights that may have channels of a group

template <int kBlocks>
struct Shared {
  Part of_threads[kNear][kThreads], of_blocks[kBlocks][kSlabGroups];
  alignas(16) unsigned long long all_sent;
};

// What is added to x before: nothing, or a number for each channel of an image.
struct Nothing {
  static constexpr bool kAdds = false;
};
struct OfChannels {
  static constexpr bool kAdds = true;
  const T* __restrict__ added;  // [n, C]
};

// How many channels of an eight are of a group.
__device__ __forceinline__ int channels_of(int eight, int group) {
  return larger(smaller((eight + 1) * kEight, (group + 1) * kOfGroup) - larger(eight * kEight, group * kOfGroup), 0);
}

template <int kBlocks>
struct Slab {
  static constexpr int kOfBlock = ceil_div(kPixels, kBlocks), kEach = ceil_div(kOfBlock, kRows);  // pixels of a block, of a thread
  static constexpr int kHeld = smaller(kEach, 16);  // of these, so many are in registers; the others are read from L2 each time
  Shared<kBlocks>& shared;
  const int rank = blockIdx.x % kBlocks, slab = blockIdx.x / kBlocks % kSlabs;
  const int eight = threadIdx.x % kEights, row = threadIdx.x / kEights;
  const size_t image = blockIdx.x / (kBlocks * kSlabs);
  const int channel = slab * kSlab + eight * kEight;  // the first of this thread's
  const int pixels = row < kRows ? larger(smaller(kPixels - rank * kOfBlock, kOfBlock) - row + kRows - 1, 0) / kRows : 0;
  const size_t start = (image * kPixels + rank * kOfBlock + row) * kChannels + channel;  // in this thread's first pixel
  Pack16<T> held[kHeld];

  __device__ __forceinline__ explicit Slab(Shared<kBlocks>& shared_) : shared(shared_) {}

  // Makes the barrier, which other blocks may count on after cluster_wait.
  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) begin_barrier(shared_address(&shared.all_sent), sizeof(shared.of_blocks));
    cluster_arrive_relaxed();
  }

  __device__ __forceinline__ size_t place(int i) const { return start + static_cast<size_t>(i) * kRows * kChannels; }

  __device__ __forceinline__ void load(const T* __restrict__ x) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (i < pixels) held[i] = load16(x + place(i));
    }
  }

  // Calls what(eight channels of a pixel, their place in the tensor) for each of this thread's pixels.
  template <typename What>
  __device__ __forceinline__ void each(const T* __restrict__ x, const What& what) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (i < pixels) what(held[i], place(i));
    }
#pragma unroll 4
    for (int i = kHeld; i < (kEach > kHeld ? pixels : 0); ++i) what(load16(x + place(i)), place(i));
  }

  // The group, as this thread counts them, of its channel e.
  __device__ __forceinline__ int near(int e) const {
    if constexpr (kNear == 1) return 0;
    return kOfGroup == kDivisor ? e / kOfGroup : (eight * kEight + e) / kOfGroup - eight * kEight / kOfGroup;
  }

  // Adds up the channels of each group.
  __device__ __forceinline__ void by_group(const float (&of_channels)[kEight], float (&sums)[kNear]) const {
#pragma unroll
    for (int g = 0; g < kNear; ++g) {
      sums[g] = 0.0f;
#pragma unroll
      for (int e = 0; e < kEight; ++e) sums[g] += near(e) == g ? of_channels[e] : 0.0f;
    }
  }

  // For each channel, the value of its group.
  __device__ __forceinline__ void by_channel(const float (&of_groups)[kNear], float (&values)[kEight]) const {
#pragma unroll
    for (int e = 0; e < kEight; ++e) {
      values[e] = of_groups[0];
#pragma unroll
      for (int g = 1; g < kNear; ++g) values[e] = near(e) == g ? of_groups[g] : values[e];
    }
  }

  // Joins what the threads of this block have of a group of the slab; for a warp.
  __device__ __forceinline__ Part of_block(int group) const {
    constexpr int kParts = kRows * kWide, kOfLane = ceil_div(kParts, 32);
    const int lane = threadIdx.x % 32, first = group * kOfGroup / kEight;
    Part parts[kOfLane];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int part = lane + i * 32, at = first + part % kWide, near = group - at * kEight / kOfGroup;
      const bool holds = part < kParts && at * kEight < (group + 1) * kOfGroup;
      parts[i] = holds ? shared.of_threads[near][part / kWide * kEights + at] : Part{0.0f, 0.0f, 0.0f};
    }
    return joined<32>(parts);
  }

  // Joins what the blocks have of a group.
  __device__ __forceinline__ Part of_all(int group) const {
    Part parts[kBlocks];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) parts[block] = shared.of_blocks[block][group];
    return joined<1>(parts);
  }

  // Joins what all threads have of the groups near to them; each gets the whole.
  __device__ __forceinline__ void join(Part (&parts)[kNear]) const {
    const int lane = threadIdx.x % 32;
    if (row < kRows) {
#pragma unroll
      for (int g = 0; g < kNear; ++g) shared.of_threads[g][threadIdx.x] = parts[g];
    }
    __syncthreads();
    for (int group = threadIdx.x / 32; group < kSlabGroups; group += kWarps) {
      const Part part = of_block(group);
      Part* const to = &shared.of_blocks[kBlocks > 1 ? rank : 0][group];
      if constexpr (kBlocks > 1) {
        if (lane < kBlocks) send_remote(shared_address(to), shared_address(&shared.all_sent), lane, part);
      } else {
        if (lane == 0) *to = part;
      }
    }
    if constexpr (kBlocks > 1) {
      wait_for_remote(shared_address(&shared.all_sent));
    } else {
      __syncthreads();
    }
#pragma unroll
    for (int g = 0; g < kNear; ++g) parts[g] = of_all(smaller(eight * kEight / kOfGroup + g, kSlabGroups - 1));
  }
};

template <int kBlocks, typename Added>
__device__ __forceinline__ void norm_of_slab(const T* __restrict__ x, Added added, const T* __restrict__ scale, const T* __restrict__ bias,
                                             T* __restrict__ y, Shared<kBlocks>& shared) {
  Slab<kBlocks> slab(shared);
  if constexpr (kBlocks > 1) slab.begin();
  slab.load(x);
  float more[kEight] = {}, sums[kEight] = {}, mean[kEight], factor[kEight], offset[kEight], of_groups[kNear];
  Part parts[kNear];
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
  slab.by_group(sums, of_groups);
#pragma unroll
  for (int g = 0; g < kNear; ++g) {
    parts[g].numbers = slab.pixels * channels_of(slab.eight, slab.eight * kEight / kOfGroup + g);
    of_groups[g] = parts[g].mean = mean_of(parts[g].numbers, of_groups[g]);
  }
  slab.by_channel(of_groups, mean);
#pragma unroll
  for (int e = 0; e < kEight; ++e) sums[e] = 0.0f;
  slab.each(x, [&](const Pack16<T>& of, size_t) {
#pragma unroll
    for (int e = 0; e < kEight; ++e) {
      const float distance = value(of, e) - mean[e];
      sums[e] = fmaf(distance, distance, sums[e]);
    }
  });
  slab.by_group(sums, of_groups);
#pragma unroll
  for (int g = 0; g < kNear; ++g) parts[g].squares = of_groups[g];
  if constexpr (kBlocks > 1) cluster_wait();
  slab.join(parts);
#pragma unroll
  for (int g = 0; g < kNear; ++g) of_groups[g] = parts[g].mean;
  slab.by_channel(of_groups, mean);
#pragma unroll
  for (int g = 0; g < kNear; ++g) of_groups[g] = inverse_deviation(parts[g], kEpsilon);
  slab.by_channel(of_groups, factor);
  const Pack16<T> scales = load16(scale + slab.channel), biases = load16(bias + slab.channel);
#pragma unroll
  for (int e = 0; e < kEight; ++e) factor[e] *= to_float(scales.value[e]), offset[e] = to_float(biases.value[e]);
  slab.each(x, [&](const Pack16<T>& of, size_t place) {
    Pack16<T> out;
#pragma unroll
    for (int e = 0; e < kEight; ++e) out.value[e] = activated<kActivation, T>(fmaf(value(of, e) - mean[e], factor[e], offset[e]));
    store_vector(y + place, out);
  });
}

}  // namespace group_norm
