// How normed_rotary_attention changes rows: queries and keys are divided by their root mean square, and scaled, before they are turned.
//
// x, cos, sin, mask and y: rotary_attention/one_tensor.cuh. query_scale and key_scale [D] are those of all heads.
#pragma once

#include "rotary_attention/one_tensor.cuh"

struct NormedRows : RotatedRows {
  const T* __restrict__ query_scale;
  const T* __restrict__ key_scale;

  __device__ __forceinline__ NormedRows(size_t pitch, const T* cos, const T* sin, const T* query_scale, const T* key_scale)
      : RotatedRows(pitch, cos, sin), query_scale(query_scale), key_scale(key_scale) {}

  // Each lane adds the squares of the whole row.
  template <bool kOfQueries>
  __device__ __forceinline__ float number(const T* row, int token, int column) const {
    const T* const scale = kOfQueries ? query_scale : key_scale;
    float squares = 0.0f;
    for (int i = 0; i < kDepth; ++i) squares = fmaf(to_float(row[i]), to_float(row[i]), squares);
    const float factor = factor_of(squares);
    const auto normed = [&](int i) { return to_float(row[i]) * factor * to_float(scale[i]); };
    return turned(normed(column % kHalf), normed(column % kHalf + kHalf), token, column);
  }

  template <typename Team, int kRows, bool kOfQueries>
  __device__ __forceinline__ void rotate(T* rows, int first, int end) const {
    static_assert((kPieces & (kPieces - 1)) == 0 && (kPieces == 1 || kRows * kPieces % 32 == 0), "all lanes of a warp add together");
    const T* const scale = kOfQueries ? query_scale : key_scale;
    rotate_after<Team, kRows>(rows, first, end, [&](float (&a)[kEight], float (&b)[kEight], int column) {
      float squares = 0.0f;
#pragma unroll
      for (int i = 0; i < kEight; ++i) squares = fmaf(a[i], a[i], fmaf(b[i], b[i], squares));
#pragma unroll
      for (int offset = kPieces / 2; offset > 0; offset /= 2) squares += __shfl_xor_sync(kAllLanes, squares, offset);
      const float factor = factor_of(squares);
      const Pack16<T> of_a = load16(scale + column), of_b = load16(scale + column + kHalf);
#pragma unroll
      for (int i = 0; i < kEight; ++i) {
        a[i] *= factor * to_float(of_a.value[i]);
        b[i] *= factor * to_float(of_b.value[i]);
      }
    });
  }

 private:
  // One over the root mean square.
  static __device__ __forceinline__ float factor_of(float squares) { return rsqrtf(squares / kDepth + ATTR_EPSILON); }
};
using NormedHeads = HeadsOfOneTensor<NormedRows>;
