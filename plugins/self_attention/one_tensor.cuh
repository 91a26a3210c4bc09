// Where self_attention and masked_self_attention find the rows of a head: queries, keys and values are parts of one tensor.
//
// x [n, a, r, b, C, 3, H, D] -> y [n, a, r, b, C, H, D]. An image has a r rows of b C tokens, in a b windows of r C tokens. A window begins kShift
// rows and columns later than without a shift, and goes on at the other end of the image. mask [1 or a b, 1 or H, 1 or r C, r C].
#pragma once

#include "attention/layer.cuh"

constexpr int kColumns = AXIS_C, kShift = ATTR_SHIFT;
constexpr bool kEven = kColumns == 1 && kShift == 0;  // all tokens of a window are as far apart

// Rows of a window, each kDepth numbers; `pitch` numbers lie between tokens that follow each other.
struct WindowRows {
  const size_t pitch;
  const int row, column;    // where the window begins
  const int rows, columns;  // of the image

  __device__ __forceinline__ size_t place(int token) const {
    if constexpr (kEven) return (static_cast<size_t>(row + token) * columns + column) * pitch;
    int at = row + token / kColumns, across = column + token % kColumns;
    if (kShift != 0 && at >= rows) at -= rows;
    if (kShift != 0 && across >= columns) across -= columns;
    return (static_cast<size_t>(at) * columns + across) * pitch;
  }

  template <typename Number>
  struct From {
    const Number* __restrict__ image;
    const WindowRows& window;
    const int first;
    __device__ __forceinline__ const Number* row(int i) const { return image + window.place(first + i); }
    __device__ __forceinline__ From from(int row) const { return {image, window, first + row}; }
  };
  template <typename Number>
  __device__ __forceinline__ From<Number> from(const Number* image, int row) const {
    return {image, *this, row};
  }
};

struct WindowMask {
  const T* __restrict__ mask;
  const int windows, heads, rows, t;  // windows, heads and rows: of the mask

  using Row = Mask::Row;
  __device__ __forceinline__ Row row(int window, int head, int query) const {
    const int matrix = window % windows * heads + (heads == 1 ? 0 : head);
    return {mask + (static_cast<size_t>(matrix) * rows + (rows == 1 ? 0 : query)) * t};
  }
};

// What attention_by_tensor_cores and the others take for an image is a window here.
template <typename AnyMask>
struct OneTensor {
  using Mask = AnyMask;
  using Rows = WindowRows;
  const T* __restrict__ x;
  const AnyMask mask;
  const int a, r, b, heads;
  T* __restrict__ y;
  const int m = r * kColumns, t = m;

  // Where the windows of an image begin, and the rows of one, of tokens that have `each` numbers.
  __device__ __forceinline__ size_t image_of(int window, size_t each) const {
    return static_cast<size_t>(window / (a * b)) * (a * r) * (b * kColumns) * each;
  }
  __device__ __forceinline__ WindowRows rows_of(int window, size_t each) const {
    return {each, window / b % a * r + kShift, window % b * kColumns + kShift, a * r, b * kColumns};
  }
  __device__ __forceinline__ Head<T, WindowRows> head(int window, int head) const {
    const size_t all = static_cast<size_t>(heads) * kDepth;
    const T* const q = x + image_of(window, 3 * all) + head * kDepth;
    return {q, q + all, q + 2 * all, m, t, rows_of(window, 3 * all)};
  }
  __device__ __forceinline__ T* result(int window, int head, int row) const {
    const size_t all = static_cast<size_t>(heads) * kDepth;
    return y + image_of(window, all) + rows_of(window, all).place(row) + head * kDepth;
  }
};
