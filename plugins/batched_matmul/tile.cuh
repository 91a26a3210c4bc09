// The part of a product that a thread of batched_matmul computes by multiply-adds.
#pragma once

#include "matrices.cuh"

constexpr int kStep = kK % 4 == 0 ? 4 : 1;  // how much of k a thread loads at a time

// How the rows of a (or the columns of b) are shared among threads: as few threads as kMost rows each allow, side by side, or four
// neighbouring rows a thread where these can be loaded at once.
template <int kExtent, int kMost, bool kAlong>
struct Share {
  static constexpr int kGroups = ceil_div(kExtent, kMost);
  static constexpr bool kWide = !kAlong && kExtent % 4 == 0 && kMost % 4 == 0;
  static constexpr int kCount = kWide ? kMost : ceil_div(kExtent, kGroups);  // rows of a thread
  static constexpr int kVector = kWide ? 4 : 1;

  __device__ static __forceinline__ int row(int group, int i) {
    return i / kVector * (kGroups * kVector) + group * kVector + i % kVector;
  }

  // Loads rows of this thread at k ... k + kStep - 1. Instead of a row beyond the last one, the last one is read; it is not written.
  template <int kRowStride>
  __device__ static __forceinline__ void load(float (&part)[kCount][kStep], const T* matrix, int group, int k) {
    if constexpr (kAlong) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int r = (i + 1) * kGroups <= kExtent ? row(group, i) : smaller(row(group, i), kExtent - 1);
        const auto loaded = *reinterpret_cast<const Vector<T, kStep>*>(matrix + r * kRowStride + k);
#pragma unroll
        for (int s = 0; s < kStep; ++s) part[i][s] = to_float(loaded.value[s]);
      }
    } else {
#pragma unroll
      for (int s = 0; s < kStep; ++s) {
#pragma unroll
        for (int i = 0; i < kCount; i += kVector) {
          const bool inside = (i + kVector) * kGroups <= kExtent;
          const int r = inside ? row(group, i) : smaller(row(group, i), kExtent - kVector);
          const auto loaded = *reinterpret_cast<const Vector<T, kVector>*>(matrix + (k + s) * kRowStride + r);
#pragma unroll
          for (int v = 0; v < kVector; ++v) part[i + v][s] = to_float(loaded.value[v]);
        }
      }
    }
  }
};

// The tile of one thread: up to kMostRows rows and kMostColumns columns.
template <int kMostRows, int kMostColumns>
struct Tile {
  using Rows = Share<kM, kMostRows, kAlongA>;
  using Columns = Share<kN, kMostColumns, kAlongB>;
  static constexpr int kTiles = Rows::kGroups * Columns::kGroups;  // of one product
  float sums[Rows::kCount][Columns::kCount] = {};
  int rows, columns;  // which ones

  __device__ __forceinline__ explicit Tile(int index) : rows(index / Columns::kGroups), columns(index % Columns::kGroups) {}

  template <int kRowStrideA, int kRowStrideB>
  __device__ __forceinline__ void multiply(const T* a, const T* b) {
    constexpr int kAtOnce = kStep == 1 ? 4 : Rows::kCount * Columns::kCount < 49 ? 2 : 1;
    constexpr int kUnroll = kK <= 4 * kStep ? kK / kStep : kAtOnce;
#pragma unroll kUnroll
    for (int k = 0; k < kK; k += kStep) {
      float left[Rows::kCount][kStep], right[Columns::kCount][kStep];
      Rows::template load<kRowStrideA>(left, a, rows, k);
      Columns::template load<kRowStrideB>(right, b, columns, k);
#pragma unroll
      for (int s = 0; s < kStep; ++s) {
#pragma unroll
        for (int i = 0; i < Rows::kCount; ++i) {
#pragma unroll
          for (int j = 0; j < Columns::kCount; ++j) sums[i][j] = fmaf(left[i][s], right[j][s], sums[i][j]);
        }
      }
    }
  }

  // Writes the sums to a matrix in global memory, or in shared memory.
  template <bool kGlobal>
  __device__ __forceinline__ void write(T* y) const {
#pragma unroll
    for (int i = 0; i < Rows::kCount; ++i) {
      const int row = Rows::row(rows, i);
      if (row >= kM) continue;
#pragma unroll
      for (int j = 0; j < Columns::kCount; j += Columns::kVector) {
        const int column = Columns::row(columns, j);
        if (column >= kN) continue;
        Vector<T, Columns::kVector> values;
#pragma unroll
        for (int v = 0; v < Columns::kVector; ++v) values.value[v] = result_of(sums[i][j + v]);
        if constexpr (kGlobal) {
          store_vector(y + row * kN + column, values);
        } else {
          *reinterpret_cast<Vector<T, Columns::kVector>*>(y + row * kN + column) = values;
        }
      }
    }
  }
};
