// Where self_attention and masked_self_attention find the rows of a head: queries, keys and values are parts of one tensor.
//
// x [n, a, r, b, C, 3, H, D] -> y [n, a, r, b, C, H, D]. An image has a r rows of b C tokens, in a b windows of r C tokens. A window begins kShift
// rows and columns later than without a shift, and goes on at the other end of the image. mask [1 or a b, 1 or H, 1 or r C, r C].
#pragma once

#include "attention/layer.cuh"

constexpr int kColumns = AXIS_C, kShift = ATTR_SHIFT;
constexpr bool kEven = kColumns == 1 && kShift == 0;  // all tokens of a window are as far apart

// Where the tokens of a window lie in an image, which has less than 2^31 numbers; `pitch` numbers lie from token to token.
struct Window {
  const int pitch;
  const int row, column;    // where the window begins
  const int rows, columns;  // of the image

  __device__ __forceinline__ int place(int token) const {
    if constexpr (kEven) return ((row + token) * columns + column) * pitch;
    int at = row + token / kColumns, across = column + token % kColumns;
    if (kShift != 0) at -= at >= rows ? rows : 0, across -= across >= columns ? columns : 0;
    return (at * columns + across) * pitch;
  }
};

struct WindowRows : AsTheyAre {
  const Window window;

  __device__ __forceinline__ explicit WindowRows(const Window& window) : window(window) {}

  template <typename Number>
  struct From {
    const Number* __restrict__ image;
    const Window window;
    const int first;
    __device__ __forceinline__ const Number* row(int i) const { return image + window.place(first + i); }
    __device__ __forceinline__ From from(int row) const { return {image, window, first + row}; }
  };
  template <typename Number>
  __device__ __forceinline__ From<Number> from(const Number* image, int row) const {
    return {image, window, row};
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

  // The tokens of a window's image, and the window in it; tokens have `each` numbers.
  template <typename Number>
  __device__ __forceinline__ Number* tokens_of(Number* tokens, int window, int each) const {
    return tokens + static_cast<size_t>(window / (a * b)) * (a * r * b * kColumns * each);
  }
  __device__ __forceinline__ Window of_image(int window, int each) const {
    return {each, window / b % a * r + kShift, window % b * kColumns + kShift, a * r, b * kColumns};
  }
  __device__ __forceinline__ Head<T, WindowRows> head(int window, int head) const {
    const int all = heads * kDepth;
    const T* const q = tokens_of(x, window, 3 * all) + head * kDepth;
    return {q, q + all, q + 2 * all, m, t, WindowRows(of_image(window, 3 * all))};
  }
  __device__ __forceinline__ T* result(int window, int head, int row) const {
    const int all = heads * kDepth;
    return tokens_of(y, window, all) + of_image(window, all).place(row) + head * kDepth;
  }
};
