// A pool of keys in shared memory from which a block picks the kTop largest.
//
// The pool is cut down by their bits, eleven at a time from the top (a radix selection): a histogram of the bits tells which
// keys are surely among the largest, surely not among them, or undecided. As no two keys are equal, at most six histograms
// decide; normally it takes one or two.
#pragma once

#include "topk/topk.cuh"

namespace topk {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kBits = 11;
constexpr int kBins = 1 << kBits;
constexpr int kBinsEach = kBins / kThreads;
constexpr int kCapacity = 4 * kThreads;
// A pool is not cut down further when it has this many keys: the ranking has room for them (pick.cuh).
constexpr int kSlots = kTop + 32;
static_assert(kBinsEach == 4, "a thread reads four bins at once");

struct Pool {
  alignas(16) unsigned bins[kBins];
  Key key[kCapacity + 2];  // what is written behind the capacity counts for nothing
  unsigned sums[kWarps];
  unsigned digit, above, inside;
  int count;

  // Returns the largest threshold, up to the bits that it leaves out, that at least kTop of the first `size` keys reach. It leaves
  // bits out as soon as at most kSlots keys reach it. A key that is 0 does not count.
  __device__ __forceinline__ Key threshold(int size) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Key prefix = 0;
    unsigned surely = 0;  // keys above all keys with the prefix
    int end = 64;
    while (true) {
      const int shift = end > kBits ? end - kBits : 0;
      *reinterpret_cast<uint4*>(bins + threadIdx.x * kBinsEach) = make_uint4(0, 0, 0, 0);
      __syncthreads();
      for (int i = threadIdx.x; i < size; i += kThreads) {
        const Key each = key[i];
        if (each != 0 && (end == 64 || each >> end == prefix)) {
          atomicAdd(&bins[static_cast<unsigned>(each >> shift) & (kBins - 1u) >> (kBits - (end - shift))], 1u);
        }
      }
      __syncthreads();
      // The first thread has the bins of the largest keys.
      const int first = (kThreads - 1 - static_cast<int>(threadIdx.x)) * kBinsEach;
      const uint4 own = *reinterpret_cast<const uint4*>(bins + first);
      const unsigned mine = own.x + own.y + own.z + own.w;
      unsigned reached = sum_before(mine) + mine;
      if (lane == 31) sums[warp] = reached;
      __syncthreads();
      for (int i = 0; i < warp; ++i) reached += sums[i];
      const unsigned left = kTop - surely;
      unsigned passed = reached - mine;
      if (passed < left && left <= reached) {
        const unsigned counts[kBinsEach] = {own.x, own.y, own.z, own.w};
        bool found = false;
#pragma unroll
        for (int i = kBinsEach - 1; i >= 0; --i) {
          if (!found && passed + counts[i] >= left) {
            digit = first + i;
            above = passed;
            inside = counts[i];
            found = true;
          }
          passed += counts[i];
        }
      }
      __syncthreads();
      prefix = prefix << (end - shift) | digit;
      surely += above;
      if (surely + inside <= kSlots || shift == 0) return prefix << shift;
      end = shift;
    }
  }

  // The sum over the lanes before this one.
  static __device__ __forceinline__ unsigned sum_before(unsigned mine) {
    unsigned sum = mine;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const unsigned before = __shfl_up_sync(kAllLanes, sum, offset);
      if (threadIdx.x % 32 >= offset) sum += before;
    }
    return sum - mine;
  }

  // Makes room for `mine` keys of each lane, and returns where they begin; all 32 lanes must call.
  __device__ __forceinline__ int reserve(unsigned mine) {
    const unsigned before = sum_before(mine);
    int start = 0;
    if (threadIdx.x % 32 == 31 && before + mine > 0) start = atomicAdd(&count, static_cast<int>(before + mine));
    return __shfl_sync(kAllLanes, start, 31) + static_cast<int>(before);
  }

  __device__ __forceinline__ void clear() {
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
  }

  // Keeps of the first `size` keys those that reach `least`. All threads must call.
  __device__ __forceinline__ void keep(int size, Key least) {
    constexpr int kEach = ceil_div(kCapacity, kThreads);
    Key own[kEach];
    unsigned kept = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int index = threadIdx.x + i * kThreads;
      own[i] = index < size ? key[index] : 0;
      kept += own[i] >= least;
    }
    __syncthreads();
    clear();
    int place = reserve(kept);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (own[i] >= least) key[place++] = own[i];
    }
    __syncthreads();
  }

  // Keeps at least kTop keys, and at most kSlots. Returns the smallest key that was to be kept.
  __device__ __noinline__ Key shrink() {
    const int size = count;
    const Key least = threshold(size);
    keep(size, least);
    return least;
  }
};

}  // namespace topk
