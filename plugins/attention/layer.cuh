// The layer that attention and masked_attention are compiled for, and rows of it by plain multiply-adds.
//
// q [N, m, H, D], k and v [N, t, H, D] -> y [N, m, H, D]: y = softmax(scale q k^T + mask) v, for each of the N H heads.
// mask [outer, 1, inner, 1 or H, 1 or m, t], where N = outer * repeat * inner.
#pragma once

#include "softmax/largest.cuh"

using T = TYPE_T;
constexpr int kDepth = AXIS_D;
constexpr float kScale = ATTR_SCALE;

// No mask.
struct Unmasked {
  struct Row {
    static constexpr bool kAdds = false;
    __device__ __forceinline__ float added(int /* key */) const { return 0.0f; }
  };
  __device__ __forceinline__ Row row(int /* image */, int /* head */, int /* query */) const { return {}; }
};

struct Mask {
  const T* __restrict__ mask;
  const int repeat, inner, heads, rows, t;  // heads and rows: of the mask

  struct Row {
    static constexpr bool kAdds = true;
    const T* __restrict__ row;
    __device__ __forceinline__ float added(int key) const { return to_float(row[key]); }
  };
  __device__ __forceinline__ Row row(int image, int head, int query) const {
    const int matrix = (image / (repeat * inner) * inner + image % inner) * heads + (heads == 1 ? 0 : head);
    return {mask + (static_cast<size_t>(matrix) * rows + (rows == 1 ? 0 : query)) * t};
  }
};

// What a head has: rows of q, k and v, each kDepth numbers, `pitch` numbers further each.
template <typename Number>
struct Head {
  const Number* __restrict__ q;
  const Number* __restrict__ k;
  const Number* __restrict__ v;
  const int m, t;  // rows of q, and of k and v
  const size_t pitch;
};

template <typename AnyMask>
struct Arguments {
  const T* __restrict__ q;
  const T* __restrict__ k;
  const T* __restrict__ v;
  const AnyMask mask;
  const int m, t, heads;
  T* __restrict__ y;

  // Where a head's row begins in q and y, or in k and v: `length` rows an image.
  __device__ __forceinline__ size_t place(int image, int head, int row, int length) const {
    return ((static_cast<size_t>(image) * length + row) * heads + head) * kDepth;
  }
  __device__ __forceinline__ Head<T> head(int image, int head) const {
    const size_t other = place(image, head, 0, t);
    return {q + place(image, head, 0, m), k + other, v + other, m, t, static_cast<size_t>(heads) * kDepth};
  }
};

// A row by plain multiply-adds, by the lanes of a warp together. A lane has each 32nd column.
template <typename AnyMask>
__device__ __noinline__ void plain_row(const Arguments<AnyMask>& layer, int image, int head, int query) {
  constexpr int kEach = ceil_div(kDepth, 32);
  const int lane = threadIdx.x % 32;
  const auto mask = layer.mask.row(image, head, query);
  const size_t row = layer.place(image, head, query, layer.m);
  float of_q[kEach], sums[kEach] = {}, total = 0.0f, most = softmax::nothing();
#pragma unroll
  for (int i = 0; i < kEach; ++i) of_q[i] = lane + 32 * i < kDepth ? to_float(layer.q[row + lane + 32 * i]) : 0.0f;
#pragma unroll 1
  for (int key = 0; key < layer.t; ++key) {
    const size_t other = layer.place(image, head, key, layer.t);
    float score = 0.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (lane + 32 * i < kDepth) score = fmaf(of_q[i], to_float(layer.k[other + lane + 32 * i]), score);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) score += __shfl_xor_sync(kAllLanes, score, offset);
    score = fmaf(score, kScale, mask.added(key));
    const float larger = fmaxf(most, score), base = softmax::reference_of(larger);
    const float kept = exp_below(most - base), share = exp_below(score - base);
    most = larger;
    total = fmaf(total, kept, share);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (lane + 32 * i < kDepth) sums[i] = fmaf(share, to_float(layer.v[other + lane + 32 * i]), sums[i] * kept);
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (lane + 32 * i < kDepth) layer.y[row + lane + 32 * i] = from_float<T>(sums[i] / total);
  }
}

// All rows by plain multiply-adds, a warp a row.
template <typename AnyMask>
__device__ __forceinline__ void attention_by_rows(const Arguments<AnyMask>& layer, int images, int threads) {
  const int row = static_cast<int>(blockIdx.x) * (threads / 32) + static_cast<int>(threadIdx.x) / 32;
  const int head = row / layer.m;
  if (head < images * layer.heads) plain_row(layer, head / layer.heads, head % layer.heads, row % layer.m);
}
