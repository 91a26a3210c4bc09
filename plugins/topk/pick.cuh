// How a block picks the kTop largest keys of a row, or of its part of one, and ranks what remains.
//
// A bound comes first, which kTop elements reach and few others: each warp tells the largest of what its lanes have as their largest
// elements, and the bound is the kTop-th largest of what all warps of the row tell, up to its last bits. What reaches it goes to the pool.
#pragma once

#include "topk/pool.cuh"

namespace topk {

constexpr int kMost = 256;  // keys that are left for the ranking
static_assert(kSlots <= kMost && kMost <= kCapacity / 2, "a pool that was cut down is small enough");

// How many elements each warp of a row tells, such that those with elements in all lanes tell kTop; twice as many as on average, since
// large ones may be neighbours.
template <int kBlocks>
struct Telling {
  static constexpr int kMostOfWarp = kBlocks == 1 ? 32 : 8;
  static constexpr int kFull = smaller(kBlocks * kThreads, kLength / RowLayout<T, kLength>::kWide) / 32;  // such warps
  static constexpr int kWanted = kFull == 0 ? 33 : 2 * ceil_div(kTop, kFull) + 2;
  static constexpr int kOfWarp = kBlocks == 1 && kWanted > 8 ? 32 : kWanted;  // all are told sooner than many are found
  static constexpr bool kUseful = kOfWarp <= kMostOfWarp && kFull * kOfWarp >= kTop;
};

// What kBlocks blocks of a row have in shared memory.
template <int kBlocks>
struct Shared {
  Pool pool;
  unsigned told[kBlocks * kWarps * Telling<kBlocks>::kMostOfWarp];  // by all warps of the row
  unsigned reached[2][kWarps];
};

// The kCount largest of what the lanes of a warp have: lane i gets the largest but i.
template <int kCount>
__device__ __forceinline__ unsigned largest_of_warp(unsigned mine) {
  if constexpr (kCount == 32) return mine;  // in any order
  const int lane = threadIdx.x % 32;
  unsigned result = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const unsigned largest = warp_max(mine);
    if (lane == i) result = largest;
    if (lane == __ffs(static_cast<int>(__ballot_sync(kAllLanes, mine == largest))) - 1) mine = 0;
  }
  return result;
}

// The largest number of kBits bits, and zeros behind, that kTop of the told elements reach; at least kTop are told. All threads must call.
// Each warp tries another digit of 16.
template <int kBlocks>
__device__ __forceinline__ unsigned bound_of(Shared<kBlocks>& shared) {
  constexpr int kDigit = 4, kBits = 4 * kDigit, kEach = kBlocks * kWarps * Telling<kBlocks>::kOfWarp / 32;
  static_assert(kWarps == 1 << kDigit && kBlocks * kWarps * Telling<kBlocks>::kOfWarp % 32 == 0);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned told[kEach], bound = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) told[i] = shared.told[lane + 32 * i];
#pragma unroll
  for (int shift = 32 - kDigit; shift >= 32 - kBits; shift -= kDigit) {
    unsigned* const reached = shared.reached[shift / kDigit % 2];
    const unsigned tried = bound | static_cast<unsigned>(warp) << shift;
    unsigned count = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) count += told[i] >= tried;
    count = warp_sum(count);
    if (lane == 0) reached[warp] = count >= kTop;
    __syncthreads();
    const unsigned digits = __ballot_sync(kAllLanes, lane < kWarps && reached[lane % kWarps] != 0);
    bound |= static_cast<unsigned>(31 - __clz(static_cast<int>(digits))) << shift;
  }
  return bound;
}

// How many of the keys of a list are larger: of the pairs number `pair`, pair + step, ...
__device__ __forceinline__ int larger_keys(const Key* list, int count, Key mine, int pair, int step) {
  int larger = 0;
#pragma unroll 4
  for (int i = 2 * pair; i < count; i += 2 * step) {
    const Vector<Key, 2> two = *reinterpret_cast<const Vector<Key, 2>*>(list + i);
    larger += two.value[0] > mine;
    larger += i + 1 < count && two.value[1] > mine;
  }
  return larger;
}

// Writes which of the keys of the pool are among the kTop largest. kLanes lanes rank a key: larger(key, lane) is how many keys a lane
// finds to be larger.
template <int kLanes, typename Larger>
__device__ __forceinline__ void write_ranked(const Pool& pool, T* __restrict__ values, int* __restrict__ indices, Larger larger) {
  constexpr int kAtOnce = kThreads / kLanes;
  const int lane = threadIdx.x % kLanes, count = pool.count;
#pragma unroll 1
  for (int i = threadIdx.x / kLanes; i - static_cast<int>(threadIdx.x) / kLanes < count; i += kAtOnce) {
    const Key mine = i < count ? pool.key[i] : ~Key(0);
    int rank = larger(mine, lane);
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) rank += __shfl_xor_sync(kAllLanes, rank, offset);
    if (lane == 0 && i < count && rank < kTop) {
      values[rank] = value_of(mine);
      indices[rank] = index_of(mine);
    }
  }
}

// Puts the kTop largest keys of the part of block `rank` into the pool, and at most kMost in all. `blocks` are those of the row: `wait()` returns
// when all have begun, `tell(place, element)` writes what a lane tells to all of them, `hear()` returns when all have told. All threads must call.
template <int kBlocks, typename Blocks>
__device__ __forceinline__ void pick(Shared<kBlocks>& shared, const Blocks& blocks, const T* __restrict__ x, size_t row, int rank) {
  using Of = Telling<kBlocks>;
  constexpr int kAll = kBlocks * kThreads, kMostValues = 32;  // that a thread holds
  constexpr int kWide = RowLayout<T, kLength>::kWide;
  constexpr int kNeeded = ceil_div(RowLayout<T, kLength>::kPacks, kAll);
  constexpr int kEach = smaller(kNeeded, kMostValues / kWide), kRounds = ceil_div(kNeeded, kEach);
  Pool& pool = shared.pool;
  const int thread = rank * kThreads + threadIdx.x, lane = threadIdx.x % 32;
  Key least = 0;  // no smaller key is among the kTop largest
  int held = 0;
  pool.clear();
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    const RowPacks<T, kLength, kAll, kEach> packs(x, row, thread + round * kEach * kAll, 0.0f);
    unsigned order[kEach][kWide];  // 0: no element
    unsigned largest = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const bool whole = packs.whole(i);
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        order[i][j] = whole || packs.inside(i, j) ? ordered(packs.pack[i].value[j]) : 0;
        largest = max(largest, order[i][j]);
      }
    }
    if (round == 0) {
      blocks.wait();
      if constexpr (Of::kUseful) {
        const unsigned told = largest_of_warp<Of::kOfWarp>(largest);
        if (lane < Of::kOfWarp) blocks.tell(thread / 32 * Of::kOfWarp + lane, told);
        blocks.hear();
        least = static_cast<Key>(bound_of(shared)) << 32;
      }
    }
    const unsigned enough = max(static_cast<unsigned>(least >> 32), 1u);
    unsigned passing = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWide; ++j) passing += order[i][j] >= enough;
    }
    int place = pool.reserve(passing);
    if (passing != 0) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          if (order[i][j] >= enough) pool.key[min(place++, kCapacity)] = key_of(order[i][j], packs.first_of(i) + j);
        }
      }
    }
    __syncthreads();
    if (pool.count > kCapacity) {
      // Too many at once, as where elements are equal: an element of each thread at a time, and room is made before.
      __syncthreads();
      if (threadIdx.x == 0) pool.count = held;
      __syncthreads();
#pragma unroll 1
      for (int i = 0; i < kEach * kWide; ++i) {
        if (pool.count > kCapacity - kThreads) least = max(least, pool.shrink());
        __syncthreads();
        const int index = packs.first_of(i / kWide) + i % kWide;
        const bool inside = index >= 0 && index < kLength;
        const Key each = inside ? key_of(ordered(x[packs.start + index]), index) : Key(0);
        const bool taken = each != 0 && each >= least;
        const int slot = pool.reserve(taken);
        if (taken) pool.key[slot] = each;
        __syncthreads();
      }
    }
    if (pool.count > (round == kRounds - 1 ? kMost : kCapacity / 2)) least = max(least, pool.shrink());
    held = pool.count;
    if (round < kRounds - 1) __syncthreads();
  }
}

}  // namespace topk
