// The layer that attention and masked_attention are compiled for, and rows of it by plain multiply-adds.
//
// q [N, m, H, D], k and v [N, t, H, D] -> y [N, m, H, D]: y = softmax(scale q k^T + mask) v, for each of the N H heads.
// mask [outer, 1, inner, 1 or H, 1 or m, t], where N = outer * repeat * inner.
#pragma once

#include "softmax/largest.cuh"

using T = TYPE_T;
constexpr int kDepth = AXIS_D, kPadded = round_up(kDepth, 16);  // products by wgmma add up sixteens of columns
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

// The mask of the windows of an image, or of all images.
struct WindowMask {
  const T* __restrict__ mask;
  const int windows, heads, rows, t;  // windows, heads and rows: of the mask

  using Row = Mask::Row;
  __device__ __forceinline__ int matrix(int window, int head) const { return window % windows * heads + (heads == 1 ? 0 : head); }
  __device__ __forceinline__ Row row(int window, int head, int query) const {
    return {mask + (static_cast<size_t>(matrix(window, head)) * rows + (rows == 1 ? 0 : query)) * t};
  }
};

// Says whether a row has a key. Where a mask hides all of them, the total of its exponentials is 0, and the result has to be 0. NaN is a total, too.
template <typename Layer>
__device__ __forceinline__ bool has_key(float total) {
  return !Layer::Mask::Row::kAdds || total != 0.0f;
}

// Rows are multiplied as they are: what a row of queries or keys has in a column.
struct AsTheyAre {
  static constexpr bool kRotated = false;

  template <bool kOfQueries, typename Number>
  __device__ __forceinline__ float number(const Number* row, int /* token */, int column) const {
    return to_float(row[column]);
  }
};

// The rows of a head, each kDepth numbers, a constant number of numbers apart.
struct EvenRows : AsTheyAre {
  const size_t pitch;

  __device__ __forceinline__ explicit EvenRows(size_t pitch) : pitch(pitch) {}

  template <typename Number>
  struct From {
    const Number* __restrict__ first;
    const size_t pitch;
    __device__ __forceinline__ const Number* row(int i) const { return first + i * pitch; }
    __device__ __forceinline__ From from(int row) const { return {first + row * pitch, pitch}; }
  };
  template <typename Number>
  __device__ __forceinline__ From<Number> from(const Number* rows, int row) const {
    return {rows + row * pitch, pitch};
  }
};

// What a head has: rows of q, k and v.
template <typename Number, typename Rows>
struct Head {
  const Number* __restrict__ q;
  const Number* __restrict__ k;
  const Number* __restrict__ v;
  const int m, t;  // rows of q, and of k and v
  const Rows rows;
};

// A head and up to `rows` of its queries, from `first_row` on, which a block computes together.
struct Part {
  int image, head, first_row;

  template <typename Layer>
  __device__ __forceinline__ Part(const Layer& layer, int number, int rows) {
    const int of_head = ceil_div(layer.m, rows);
    first_row = number % of_head * rows;
    image = number / of_head / layer.heads, head = number / of_head % layer.heads;
  }
};

// Queries, keys and values are three tensors.
template <typename AnyMask>
struct Arguments {
  using Mask = AnyMask;
  using Rows = EvenRows;
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
  __device__ __forceinline__ Head<T, EvenRows> head(int image, int head) const {
    const size_t other = place(image, head, 0, t);
    return {q + place(image, head, 0, m), k + other, v + other, m, t, EvenRows(static_cast<size_t>(heads) * kDepth)};
  }
  __device__ __forceinline__ T* result(int image, int head, int row) const { return y + place(image, head, row, m); }
};

// A row by plain multiply-adds, by the lanes of a warp together. A lane has each 32nd column.
template <typename Layer>
__device__ __noinline__ void plain_row(const Layer& layer, int image, int head, int query) {
  constexpr int kEach = ceil_div(kDepth, 32);
  const int lane = threadIdx.x % 32;
  const auto mask = layer.mask.row(image, head, query);
  const auto of_head = layer.head(image, head);
  const T* const q = of_head.rows.from(of_head.q, query).row(0);
  const auto k = of_head.rows.from(of_head.k, 0), v = of_head.rows.from(of_head.v, 0);
  float of_q[kEach], sums[kEach] = {}, total = 0.0f, most = softmax::nothing();
#pragma unroll
  for (int i = 0; i < kEach; ++i) of_q[i] = lane + 32 * i < kDepth ? of_head.rows.template number<true>(q, query, lane + 32 * i) : 0.0f;
#pragma unroll 1
  for (int key = 0; key < layer.t; ++key) {
    const T *const of_k = k.row(key), *const of_v = v.row(key);
    float score = 0.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (lane + 32 * i < kDepth) score = fmaf(of_q[i], of_head.rows.template number<false>(of_k, key, lane + 32 * i), score);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) score += __shfl_xor_sync(kAllLanes, score, offset);
    score = fmaf(score, kScale, mask.added(key));
    const float larger = fmaxf(most, score), base = softmax::reference_of(larger);
    const float kept = exp_approx(most - base), share = exp_approx(score - base);
    most = larger;
    total = fmaf(total, kept, share);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (lane + 32 * i < kDepth) sums[i] = fmaf(share, to_float(of_v[lane + 32 * i]), sums[i] * kept);
    }
  }
  T* const y = layer.result(image, head, query);
  const float divisor = has_key<Layer>(total) ? total : 1.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (lane + 32 * i < kDepth) y[lane + 32 * i] = from_float<T>(sums[i] / divisor);
  }
}

// All rows by plain multiply-adds, a warp a row.
template <typename Layer>
__device__ __forceinline__ void attention_by_rows(const Layer& layer, int images, int threads) {
  const unsigned row = blockIdx.x * (threads / 32) + threadIdx.x / 32;  // of the last block perhaps beyond all rows, of which an int has the number
  const int head = static_cast<int>(row / layer.m);
  if (head < images * layer.heads) plain_row(layer, head / layer.heads, head % layer.heads, static_cast<int>(row % layer.m));
}
