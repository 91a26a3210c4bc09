// How rotary_attention turns the rows of a head.
//
// The angles of a token: cos and sin [t, D], of which the first half is read, since the second one repeats it.
#pragma once

#include "attention/tile.cuh"
#include "rotary_attention/heads.cuh"

constexpr int kHalf = kDepth / 2;

// Rows of queries and keys are turned before they are multiplied: columns i and i + D / 2 are a point of a plane.
struct RotatedRows : EvenRows {
  static constexpr bool kRotated = true;
  const T* __restrict__ cos;
  const T* __restrict__ sin;

  __device__ __forceinline__ RotatedRows(size_t pitch, const T* cos, const T* sin) : EvenRows(pitch), cos(cos), sin(sin) {}

  template <bool kOfQueries>
  __device__ __forceinline__ float number(const T* row, int token, int column) const {
    return turned(to_float(row[column % kHalf]), to_float(row[column % kHalf + kHalf]), token, column);
  }

  // Turns rows in shared memory (tile.cuh) that are tokens from `first` on, by all threads of a team; those from `end` on are no tokens.
  template <typename Team, int kRows, bool kOfQueries>
  __device__ __forceinline__ void rotate(T* rows, int first, int end) const {
    rotate_after<Team, kRows>(rows, first, end, [](float (&)[kEight], float (&)[kEight], int /* column */) {});
  }

 protected:
  // What a column has of a point (a, b) that is turned.
  __device__ __forceinline__ float turned(float a, float b, int token, int column) const {
    const size_t angle = static_cast<size_t>(token) * kDepth + column % kHalf;
    const float c = to_float(cos[angle]), s = to_float(sin[angle]);
    return column < kHalf ? fmaf(a, c, -b * s) : fmaf(b, c, a * s);
  }

  static constexpr int kEight = 8, kPieces = kHalf / kEight;  // a thread has eight columns, and eight of the other half
  static_assert(kHalf % kEight == 0);

  // The same after `change(a, b, column)` of what a thread has: columns from `column` on, and those half a row further. The threads of a row are
  // neighbours.
  template <typename Team, int kRows, typename Change>
  __device__ __forceinline__ void rotate_after(T* rows, int first, int end, Change change) const {
#pragma unroll
    for (int i = Team::thread(); i < kRows * kPieces; i += Team::kThreads) {
      const int row = i / kPieces, column = i % kPieces * kEight;
      T* const from = rows + row * kPitch + column;
      Pack16<T> a = load16(from), b = load16(from + kHalf);
      float x[kEight], y[kEight];
#pragma unroll
      for (int j = 0; j < kEight; ++j) x[j] = to_float(a.value[j]), y[j] = to_float(b.value[j]);
      change(x, y, column);
      if (first + row >= end) continue;
      const size_t angle = static_cast<size_t>(first + row) * kDepth + column;
      const Pack16<T> c = load16(cos + angle), s = load16(sin + angle);
#pragma unroll
      for (int j = 0; j < kEight; ++j) {
        const float of_c = to_float(c.value[j]), of_s = to_float(s.value[j]);
        a.value[j] = from_float<T>(fmaf(x[j], of_c, -y[j] * of_s));
        b.value[j] = from_float<T>(fmaf(y[j], of_c, x[j] * of_s));
      }
      *reinterpret_cast<uint4*>(from) = *reinterpret_cast<const uint4*>(&a);
      *reinterpret_cast<uint4*>(from + kHalf) = *reinterpret_cast<const uint4*>(&b);
    }
  }
};

using RotatedHeads = HeadsOfOneTensor<RotatedRows>;
