// The operands of batched_matmul, and copies of whole matrices between global and shared memory.
//
// A matrix is stored "along k" where neighbours in memory are neighbours in k, otherwise "across k". Many matrices lie one behind the
// other in memory, so a block moves them 16 bytes at a time, whatever their sizes are.
#pragma once

#include "copies.cuh"

using T = TYPE_T;
constexpr float kAlpha = ATTR_ALPHA;
constexpr int kM = AXIS_M, kN = AXIS_N, kK = AXIS_K_BEFORE_M * AXIS_K_AFTER_M;
static_assert(kK == AXIS_K_BEFORE_N * AXIS_K_AFTER_N, "a and b have the same k");
constexpr bool kAlongA = AXIS_K_BEFORE_M == 1, kAlongB = AXIS_K_BEFORE_N == 1;
static_assert((kAlongA || AXIS_K_AFTER_M == 1) && (kAlongB || AXIS_K_AFTER_N == 1), "k is one dimension");

__host__ __device__ constexpr int odd(int a) { return a / 2 * 2 + 1; }  // 2 -> 3, 3 -> 3

// What is written of a sum.
__device__ __forceinline__ T result_of(float sum) { return from_float<T>(kAlpha == 1.0f ? sum : kAlpha * sum); }

constexpr int kChunk = 16 / static_cast<int>(sizeof(T));  // elements in 16 bytes

// Begins to copy 16 bytes; of these, the last 16 - `bytes` become zero and are not read. Both addresses are multiples of 16.
__device__ __forceinline__ void begin_copy16(void* to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  copy_async<16>(shared_address(to), from, bytes);
#else
  if (bytes == 16) {
    *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      static_cast<unsigned short*>(to)[i] = 2 * i < bytes ? static_cast<const unsigned short*>(from)[i] : 0;
    }
  }
#endif
}

// Matrices in shared memory. Where matrices are whole chunks of 16 bytes, an odd number of chunks is between the beginnings of two of
// them, so that these lie in different banks; with kPadRows, the same holds for rows. Where matrices are not whole chunks, they lie as
// in global memory, at the same distance from a multiple of 16 bytes.
template <int kRows, int kColumns, bool kPadRows>
struct Staged {
  static constexpr int kElements = kRows * kColumns;
  static constexpr bool kWhole = kElements % kChunk == 0;
  static constexpr bool kWholeRows = kPadRows && kColumns % kChunk == 0;
  static constexpr int kRowStride = kWholeRows ? odd(kColumns / kChunk) * kChunk : kColumns;
  static constexpr int kStride = kWhole ? odd(kRows * kRowStride / kChunk) * kChunk : kElements;

  __host__ __device__ static constexpr int size(int matrices) {
    return ceil_div(matrices * kStride + (kWhole ? 0 : kChunk - 1), kChunk) * kChunk;
  }

  // Elements between a multiple of 16 bytes and the matrix `first` in global memory.
  __device__ static __forceinline__ int lead(long long first) { return kWhole ? 0 : static_cast<int>(first * kElements % kChunk); }

  // Where chunk `c` of `kMatrices` whole matrices lies.
  template <int kMatrices>
  __device__ static __forceinline__ int place(int c) {
    if constexpr (kWholeRows) {
      constexpr int kRowChunks = kColumns / kChunk;
      const int row = c / kRowChunks, matrix = kMatrices == 1 ? 0 : row / kRows;
      return matrix * (kStride - kRows * kRowStride) + row * kRowStride + c % kRowChunks * kChunk;
    } else {
      constexpr int kChunks = larger(kElements / kChunk, 1);
      return kMatrices == 1 ? c * kChunk : c / kChunks * kStride + c % kChunks * kChunk;
    }
  }

  // Calls `work(chunk)` for every chunk of `count` matrices and of `before` elements before them. Each thread of the block has some of
  // the chunks. With all kMatrices, the loop has no end that is known late.
  template <int kThreads, int kMatrices, typename Work>
  __device__ static __forceinline__ void for_chunks(int count, int before, Work work) {
    constexpr int kMost = ceil_div(kMatrices * kElements + (kWhole ? 0 : kChunk - 1), kChunk);
    const int chunks = ceil_div(before + count * kElements, kChunk);
#pragma unroll
    for (int c = 0; c < kMost; c += kThreads) {
      const int own = c + threadIdx.x;
      if (own < (kWhole && kMatrices == 1 ? kMost : chunks)) work(own);
    }
  }

  // Begins to copy the matrices first ... first + count - 1 of `total`; count <= kMatrices.
  template <int kThreads, int kMatrices>
  __device__ static __forceinline__ void fetch(T* to, const T* from, long long first, int count, long long total) {
    const int before = lead(first);
    const long long begin = first * kElements - before;
    from += begin;
    if constexpr (kWhole) {
      for_chunks<kThreads, kMatrices>(count, 0, [=](int c) { begin_copy16(to + place<kMatrices>(c), from + c * kChunk, 16); });
    } else {
      const long long rest = total * kElements - begin;
      const int end = rest < kMatrices * kElements + kChunk ? static_cast<int>(rest) : kMatrices * kElements + 2 * kChunk;
      for_chunks<kThreads, kMatrices>(count, before, [=](int c) {
        begin_copy16(to + c * kChunk, from + c * kChunk, smaller(end - c * kChunk, kChunk) * static_cast<int>(sizeof(T)));
      });
    }
  }

  // Writes the matrices first ... first + count - 1.
  template <int kThreads, int kMatrices>
  __device__ static __forceinline__ void put(const T* from, T* to, long long first, int count) {
    const int before = lead(first), end = before + count * kElements;
    to += first * kElements - before;
    for_chunks<kThreads, kMatrices>(count, before, [=](int c) {
      if constexpr (kWhole) {
        store_vector(to + c * kChunk, load16(from + place<kMatrices>(c)));
      } else if ((c > 0 || before == 0) && (c + 1) * kChunk <= end) {
        store_vector(to + c * kChunk, load16(from + c * kChunk));
      }
    });
    if constexpr (!kWhole) {  // elements in chunks that other blocks write as well, a thread one at each end
      const int own = threadIdx.x, last = end / kChunk * kChunk + own;
      if (own < kChunk && before > 0 && own >= before && own < end) to[own] = from[own];
      if (own < kChunk && last < end && (last >= kChunk || before == 0)) to[last] = from[last];
    }
  }
};

template <bool kPadRows>
using StagedA = Staged<kAlongA ? kM : kK, kAlongA ? kK : kM, kPadRows>;
template <bool kPadRows>
using StagedB = Staged<kAlongB ? kN : kK, kAlongB ? kK : kN, kPadRows>;
template <bool kPadRows>
using StagedY = Staged<kM, kN, kPadRows>;

// How many products fit in shared memory that has to be declared nowhere, with `elements` for each.
__host__ __device__ constexpr int most_products(int elements) {
  return (48 * 1024 - 3 * 16) / (elements * static_cast<int>(sizeof(T)));
}

constexpr int kBytes = (kM * kK + kK * kN + kM * kN) * static_cast<int>(sizeof(T));  // of one product
