// The operands of batched_matmul, and copies of whole matrices between global and shared memory.
//
// A matrix is stored "along k" where neighbours in memory are neighbours in k, otherwise "across k". Many matrices lie one behind the
// other in memory, so a block moves them 16 bytes at a time, whatever their sizes are.
#pragma once

#include "instructions.cuh"

using T = TYPE_T;
constexpr float kAlpha = ATTR_ALPHA;
constexpr int kM = AXIS_M, kN = AXIS_N, kK = AXIS_K_BEFORE_M * AXIS_K_AFTER_M;
static_assert(kK == AXIS_K_BEFORE_N * AXIS_K_AFTER_N, "a and b have the same k");
constexpr bool kAlongA = AXIS_K_BEFORE_M == 1, kAlongB = AXIS_K_BEFORE_N == 1;
static_assert((kAlongA || AXIS_K_AFTER_M == 1) && (kAlongB || AXIS_K_AFTER_N == 1), "k is one dimension");

__host__ __device__ constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int larger(int a, int b) { return a < b ? b : a; }
__host__ __device__ constexpr int odd(int a) { return a / 2 * 2 + 1; }  // 2 -> 3, 3 -> 3

// What is written of a sum.
__device__ __forceinline__ T result_of(float sum) { return from_float<T>(kAlpha == 1.0f ? sum : kAlpha * sum); }

constexpr int kChunk = 16 / static_cast<int>(sizeof(T));  // elements in 16 bytes

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
    return divide_up(matrices * kStride + (kWhole ? 0 : kChunk - 1), kChunk) * kChunk;
  }

  // Elements between a multiple of 16 bytes and the matrix `first` in global memory.
  __device__ static __forceinline__ int lead(long long first) { return kWhole ? 0 : static_cast<int>(first * kElements % kChunk); }

  // Where chunk `c` of several whole matrices lies.
  __device__ static __forceinline__ int place(int c) {
    if constexpr (kWholeRows) {
      constexpr int kRowChunks = kColumns / kChunk;
      const int row = c / kRowChunks;
      return row / kRows * kStride + row % kRows * kRowStride + c % kRowChunks * kChunk;
    } else {
      constexpr int kChunks = larger(kElements / kChunk, 1);
      return c / kChunks * kStride + c % kChunks * kChunk;
    }
  }

  // Begins to copy the matrices first ... first + count - 1 of `total`.
  template <int kThreads>
  __device__ static __forceinline__ void fetch(T* to, const T* from, long long first, int count, long long total) {
    if constexpr (kWhole) {
      const T* begin = from + first * kElements;
      for (int c = threadIdx.x; c < count * (kElements / kChunk); c += kThreads) {
        begin_copy16(to + place(c), begin + static_cast<size_t>(c) * kChunk, 16);
      }
    } else {
      const int before = lead(first), chunks = divide_up(before + count * kElements, kChunk);
      const long long begin = first * kElements - before, rest = total * kElements - begin;
      for (int c = threadIdx.x; c < chunks; c += kThreads) {
        const long long left = rest - c * kChunk;
        begin_copy16(to + c * kChunk, from + begin + c * kChunk, left < kChunk ? static_cast<int>(left * sizeof(T)) : 16);
      }
    }
  }

  // Writes the matrices first ... first + count - 1.
  template <int kThreads>
  __device__ static __forceinline__ void put(const T* from, T* to, long long first, int count) {
    if constexpr (kWhole) {
      T* begin = to + first * kElements;
      for (int c = threadIdx.x; c < count * (kElements / kChunk); c += kThreads) {
        store_vector(begin + static_cast<size_t>(c) * kChunk, load16(from + place(c)));
      }
    } else {
      const int before = lead(first), end = before + count * kElements;
      T* begin = to + first * kElements - before;
      for (int c = threadIdx.x * kChunk; c < end; c += kThreads * kChunk) {
        if (c >= before && c + kChunk <= end) {
          store_vector(begin + c, load16(from + c));
        } else {
          for (int i = larger(c, before); i < smaller(c + kChunk, end); ++i) begin[i] = from[i];
        }
      }
    }
  }
};

template <bool kPadRows>
using StagedA = Staged<kAlongA ? kM : kK, kAlongA ? kK : kM, kPadRows>;
template <bool kPadRows>
using StagedB = Staged<kAlongB ? kN : kK, kAlongB ? kK : kN, kPadRows>;
template <bool kPadRows>
using StagedY = Staged<kM, kN, kPadRows>;

constexpr int kBytes = (kM * kK + kK * kN + kM * kN) * static_cast<int>(sizeof(T));  // of one product
