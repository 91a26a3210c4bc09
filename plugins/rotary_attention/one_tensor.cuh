// Where rotary_attention finds the rows of a head, and how it turns them: queries, keys and values are heads of one tensor.
//
// x [n, b, t, R + 2, g, D] -> y [n, b, t, R, g, D]: R g heads of queries, g of keys, g of values. R heads of queries in a row have the same keys and
// values.
// The angles of a token: cos and sin [t, D], of which the first half is read, since the second one repeats it. mask [b, 1 or R g, 1 or t, t].
#pragma once

#include "attention/tile.cuh"

constexpr int kRepeats = ATTR_REPEATS, kHalf = kDepth / 2;

// Rows of queries and keys are turned before they are multiplied: columns i and i + D / 2 are a point of a plane.
struct RotatedRows : EvenRows {
  static constexpr bool kRotated = true;
  const T* __restrict__ cos;
  const T* __restrict__ sin;

  __device__ __forceinline__ RotatedRows(size_t pitch, const T* cos, const T* sin) : EvenRows(pitch), cos(cos), sin(sin) {}

  __device__ __forceinline__ float number(const T* row, int token, int column) const {
    const size_t angle = static_cast<size_t>(token) * kDepth + column % kHalf;
    const float a = to_float(row[column % kHalf]), b = to_float(row[column % kHalf + kHalf]), c = to_float(cos[angle]), s = to_float(sin[angle]);
    return column < kHalf ? fmaf(a, c, -b * s) : fmaf(b, c, a * s);
  }

  // Turns rows in shared memory (tile.cuh) that are tokens from `first` on, by all threads of a team; those from `end` on are no tokens.
  template <typename Team, int kRows>
  __device__ __forceinline__ void rotate(T* rows, int first, int end) const {
    constexpr int kEight = 8, kPieces = kHalf / kEight;
    static_assert(kHalf % kEight == 0);
#pragma unroll
    for (int i = Team::thread(); i < kRows * kPieces; i += Team::kThreads) {
      const int row = i / kPieces, column = i % kPieces * kEight;
      if (first + row >= end) break;
      const size_t angle = static_cast<size_t>(first + row) * kDepth + column;
      const Pack16<T> c = load16(cos + angle), s = load16(sin + angle);
      T* const from = rows + row * kPitch + column;
      Pack16<T> a = load16(from), b = load16(from + kHalf);
#pragma unroll
      for (int j = 0; j < kEight; ++j) {
        const float x = to_float(a.value[j]), y = to_float(b.value[j]), of_c = to_float(c.value[j]), of_s = to_float(s.value[j]);
        a.value[j] = from_float<T>(fmaf(x, of_c, -y * of_s));
        b.value[j] = from_float<T>(fmaf(y, of_c, x * of_s));
      }
      *reinterpret_cast<uint4*>(from) = *reinterpret_cast<const uint4*>(&a);
      *reinterpret_cast<uint4*>(from + kHalf) = *reinterpret_cast<const uint4*>(&b);
    }
  }
};

struct RotatedHeads {
  using Mask = WindowMask;
  using Rows = RotatedRows;
  const T* __restrict__ x;
  const T* __restrict__ cos;
  const T* __restrict__ sin;
  const WindowMask mask;
  const int m, groups;
  T* __restrict__ y;
  const int t = m, heads = kRepeats * groups;

  __device__ __forceinline__ Head<T, RotatedRows> head(int image, int head) const {
    const size_t pitch = static_cast<size_t>((kRepeats + 2) * groups) * kDepth;
    const T* const first = x + image * (t * pitch);
    const T* const keys = first + (heads + head / kRepeats) * kDepth;
    return {first + head * kDepth, keys, keys + groups * kDepth, m, t, RotatedRows(pitch, cos, sin)};
  }
  __device__ __forceinline__ T* result(int image, int head, int row) const {
    return y + ((static_cast<size_t>(image) * m + row) * heads + head) * kDepth;
  }
};
