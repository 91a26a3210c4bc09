// Device helpers for kernels that work on rows [rows, kLength]: loads of any width, a row in the registers of a block or a
// cluster, maxima and sums over lanes. A row lies side by side, or in pieces that are anywhere.
#pragma once

#include "common.cuh"

// The widest access, in elements, with which rows of `length` elements can be read from their first element to their last.
template <typename T>
__host__ __device__ constexpr int row_width(int length) {
  int width = Pack16<T>::kCount;
  while (length % width != 0) width /= 2;
  return width;
}

// ---- over kLanes neighbouring lanes; all 32 lanes must call ---------------------------------------------------------------

template <int kLanes>
__device__ __forceinline__ float lanes_max(float value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    value = max_nan(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

template <int kLanes>
__device__ __forceinline__ float lanes_sum(float value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

// ---- a row in registers ---------------------------------------------------------------------------------------------------

// How a row lies in memory: the 16-byte packs that cover it. Where rows are no whole packs, the first and the last pack have
// elements of other rows as well: those are not read, and not written.
template <typename T, int kLength>
struct RowLayout {
  static constexpr int kWide = Pack16<T>::kCount;
  static constexpr bool kWhole = kLength % kWide == 0;
  static constexpr int kPacks = kWhole ? kLength / kWide : ceil_div(kLength + kWide - 1, kWide);

  // Whether a pack lies in the row as a whole; `first` is the index of its first element there, maybe before the row.
  static __device__ __forceinline__ bool is_whole(int first) { return (kWhole || first >= 0) && first + kWide <= kLength; }
};

// kEach packs of a row in the registers of a thread: number `thread`, thread + kThreads, ...
template <typename T, int kLength, int kThreads, int kEach_ = ceil_div(RowLayout<T, kLength>::kPacks, kThreads)>
struct RowPacks : RowLayout<T, kLength> {
  using Layout = RowLayout<T, kLength>;
  static constexpr int kEach = kEach_;
  static constexpr int kWide = Layout::kWide;

  Pack16<T> pack[kEach];
  size_t start;  // the row's first element in the tensor
  int first;     // the first element of pack 0 in the row; maybe before the row

  // Elements outside of the row become `filler`.
  __device__ __forceinline__ RowPacks(const T* x, size_t row, int thread, float filler) {
    start = row * kLength;
    first = thread * kWide - (Layout::kWhole ? 0 : static_cast<int>(start % kWide));
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (whole(i)) {
        pack[i] = load16(x + start + first_of(i));
      } else {
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          pack[i].value[j] = from_float<T>(filler);
          if (inside(i, j)) pack[i].value[j] = x[start + first_of(i) + j];
        }
      }
    }
  }

  // The same of rows whose elements lie in pieces: `rows.row(row) + column` is the address of one, and Rows::kPiece of them lie together.
  // What is stored lies side by side.
  template <typename Rows>
  __device__ __forceinline__ RowPacks(const Rows& rows, size_t row, int thread, float filler) {
    constexpr int kTogether = row_width<T>(Rows::kPiece);
    start = row * kLength;
    first = thread * kWide - (Layout::kWhole ? 0 : static_cast<int>(start % kWide));
    const auto begin = rows.row(row);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWide; j += kTogether) {
        Vector<T, kTogether> part;
#pragma unroll
        for (int l = 0; l < kTogether; ++l) part.value[l] = from_float<T>(filler);
        // A row consists of whole parts, and so does the part of a pack that is in it.
        if (holds(i, j)) part = load_vector<kTogether>(begin + column(i, j));
#pragma unroll
        for (int l = 0; l < kTogether; ++l) pack[i].value[j + l] = part.value[l];
      }
    }
  }

  // Stores value(i, j) in place of element j of pack i.
  template <typename Value>
  __device__ __forceinline__ void store(T* y, Value value) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      Pack16<T> out;
#pragma unroll
      for (int j = 0; j < kWide; ++j) out.value[j] = from_float<T>(value(i, j));
      if (whole(i)) {
        store_vector(y + start + first_of(i), out);
      } else {
#pragma unroll
        for (int j = 0; j < kWide; ++j) {
          if (inside(i, j)) y[start + first_of(i) + j] = out.value[j];
        }
      }
    }
  }

  __device__ __forceinline__ float value(int i, int j) const { return to_float(pack[i].value[j]); }

  // The index in the row of pack i's first element.
  __device__ __forceinline__ int first_of(int i) const { return first + i * kThreads * kWide; }

  __device__ __forceinline__ bool whole(int i) const { return Layout::is_whole(first_of(i)); }

  __device__ __forceinline__ bool inside(int i, int j) const {
    return !Layout::kWhole && first_of(i) + j >= 0 && first_of(i) + j < kLength;
  }

  // Whether element j of pack i is an element of the row, and its index there: 0 where it is none.
  __device__ __forceinline__ bool holds(int i, int j) const { return whole(i) || inside(i, j); }
  __device__ __forceinline__ int column(int i, int j) const { return holds(i, j) ? first_of(i) + j : 0; }
};
