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
// A pool is not cut down further when it has this many keys: the last of them are left to the ranking.
constexpr int kSlots = kTop + 32;
static_assert(kSlots < kThreads && kBinsEach == 4, "a thread reads four bins and ranks one key");

struct Pool {
  alignas(16) unsigned bins[kBins];
  Key key[kCapacity];
  unsigned sums[kWarps];
  unsigned digit, above, inside;
  int count;

  // Returns the largest threshold, up to the bits that it leaves out, that at least `wanted` keys reach. It leaves bits out as
  // soon as at most `most` keys reach it. Keys that are 0 do not count; at least `wanted` others are needed.
  __device__ __forceinline__ Key threshold(const Key* keys, int size, unsigned wanted, unsigned most) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Key prefix = 0;
    unsigned surely = 0;  // keys above all keys with the prefix
    int end = 64;
    while (true) {
      const int shift = end > kBits ? end - kBits : 0;
#pragma unroll
      for (int i = 0; i < kBinsEach; ++i) bins[threadIdx.x + i * kThreads] = 0;
      __syncthreads();
      for (int i = threadIdx.x; i < size; i += kThreads) {
        const Key each = keys[i];
        if (each != 0 && (end == 64 || each >> end == prefix)) {
          atomicAdd(&bins[static_cast<unsigned>(each >> shift) & (kBins - 1u) >> (kBits - (end - shift))], 1u);
        }
      }
      __syncthreads();
      // The first thread has the bins of the largest keys.
      const int first = (kThreads - 1 - static_cast<int>(threadIdx.x)) * kBinsEach;
      const uint4 own = *reinterpret_cast<const uint4*>(bins + first);
      const unsigned mine = own.x + own.y + own.z + own.w;
      unsigned reached = mine;
#pragma unroll
      for (int offset = 1; offset < 32; offset *= 2) {
        const unsigned before = __shfl_up_sync(kAllLanes, reached, offset);
        if (lane >= offset) reached += before;
      }
      if (lane == 31) sums[warp] = reached;
      __syncthreads();
      for (int i = 0; i < warp; ++i) reached += sums[i];
      const unsigned left = wanted - surely;
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
      if (surely + inside <= most || shift == 0) return prefix << shift;
      end = shift;
    }
  }

  __device__ __forceinline__ void clear() {
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
  }

  // Adds keys of some lanes; all 32 lanes must call.
  __device__ __forceinline__ void append(bool taken, Key each) {
    const unsigned lanes = __ballot_sync(kAllLanes, taken);
    if (lanes == 0) return;
    const int lane = threadIdx.x % 32;
    int start = 0;
    if (lane == 0) start = atomicAdd(&count, __popc(lanes));
    start = __shfl_sync(kAllLanes, start, 0);
    if (taken) key[start + __popc(lanes & ((1u << lane) - 1u))] = each;
  }

  // Keeps at least kTop keys, and at most kSlots. Returns the smallest key that was to be kept.
  __device__ __noinline__ Key shrink() {
    const int size = count;
    const Key least = threshold(key, size, kTop, kSlots);
    Key own[kCapacity / kThreads];
#pragma unroll
    for (int i = 0; i < kCapacity / kThreads; ++i) {
      const int index = threadIdx.x + i * kThreads;
      own[i] = index < size ? key[index] : 0;
    }
    __syncthreads();
    clear();
#pragma unroll
    for (int i = 0; i < kCapacity / kThreads; ++i) append(own[i] >= least, own[i]);
    __syncthreads();
    return least;
  }

  // Writes the kTop largest of at most kSlots keys in their order: a key's rank is how many are larger.
  __device__ __forceinline__ void write(T* __restrict__ values, int* __restrict__ indices) const {
    if (static_cast<int>(threadIdx.x) >= count) return;
    const Key mine = key[threadIdx.x];
    int rank = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) rank += key[i] > mine;
    if (rank < kTop) {
      values[rank] = value_of(mine);
      indices[rank] = index_of(mine);
    }
  }
};

// Puts the kTop largest keys of a part of the row into the pool, and at most kSlots: the part of thread `thread` of `kAll`.
template <int kAll>
__device__ __forceinline__ void pick(Pool& pool, const T* __restrict__ x, size_t row, int thread) {
  constexpr int kMostPacks = 8;  // that a thread loads at once
  constexpr int kNeeded = ceil_divide(RowLayout<T, kLength>::kPacks, kAll);
  constexpr int kEach = kNeeded < kMostPacks ? kNeeded : kMostPacks;
  using Packs = RowPacks<T, kLength, kAll, kEach>;
  constexpr int kWide = Packs::kWide;
  Key least = 0;  // no smaller key is among the kTop largest
  pool.clear();
#pragma unroll 1
  for (int round = 0; round < ceil_divide(kNeeded, kEach); ++round) {
    const Packs packs(x, row, thread + round * kEach * kAll, 0.0f);
    const auto key = [&](int i, int j) {
      return packs.holds(i, j) ? key_of(ordered(packs.pack[i].value[j]), packs.first_of(i) + j) : Key(0);
    };
    if (round == 0) {
      // At least kTop keys are as large as the kTop-th of the threads' largest keys.
      Key largest = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) largest = max(largest, key(i, j));
      }
      pool.key[threadIdx.x] = largest;
      const int filled = __syncthreads_count(largest != 0);
      if (filled >= kTop) least = pool.threshold(pool.key, kThreads, kTop, kThreads);
    }
    int passing = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        const Key each = key(i, j);
        passing += each != 0 && each >= least;
      }
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) passing += __shfl_xor_sync(kAllLanes, passing, offset);
    if (threadIdx.x % 32 == 0) pool.sums[threadIdx.x / 32] = passing;
    __syncthreads();
    int all = pool.count;
    for (int i = 0; i < kWarps; ++i) all += pool.sums[i];
    __syncthreads();
    if (all <= kCapacity) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          const Key each = key(i, j);
          pool.append(each != 0 && each >= least, each);
        }
      }
      __syncthreads();
    } else {
      // Too many at once, as where the row rises: an element of each thread at a time, and room is made before.
#pragma unroll 1
      for (int i = 0; i < kEach * kWide; ++i) {
        if (pool.count > kCapacity - kThreads) least = max(least, pool.shrink());
        __syncthreads();
        const int index = packs.first_of(i / kWide) + i % kWide;
        const bool inside = index >= 0 && index < kLength;
        const Key each = inside ? key_of(ordered(x[packs.start + index]), index) : Key(0);
        pool.append(each != 0 && each >= least, each);
        __syncthreads();
      }
    }
    if (pool.count > kSlots) least = max(least, pool.shrink());
    __syncthreads();
  }
}

}  // namespace topk
