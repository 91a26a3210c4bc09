// Where rotary_attention finds the rows of a head: queries, keys and values are heads of one tensor.
//
// x [n, b, t, R + 2, g, D] -> y [n, b, t, R, g, D]: R g heads of queries, g of keys, g of values. R heads of queries in a row have the same keys and
// values. mask [b, 1 or R g, 1 or t, t].
#pragma once

#include "attention/layer.cuh"

constexpr int kRepeats = ATTR_REPEATS;

// The heads of x, whose rows are `rows`.
template <typename AnyRows>
struct HeadsOfOneTensor {
  using Mask = WindowMask;
  using Rows = AnyRows;
  const T* __restrict__ x;
  const AnyRows rows;
  const WindowMask mask;
  const int m, groups;
  T* __restrict__ y;
  const int t = m, heads = kRepeats * groups;

  __device__ __forceinline__ Head<T, AnyRows> head(int image, int head) const {
    const T* const first = x + image * (t * rows.pitch);
    const T* const keys = first + (heads + head / kRepeats) * kDepth;
    return {first + head * kDepth, keys, keys + groups * kDepth, m, t, rows};
  }
  __device__ __forceinline__ T* result(int image, int head, int row) const {
    return y + ((static_cast<size_t>(image) * m + row) * heads + head) * kDepth;
  }
};

// How far the tokens of x are apart.
__device__ __forceinline__ size_t pitch_of_tokens(int groups) { return static_cast<size_t>((kRepeats + 2) * groups) * kDepth; }
