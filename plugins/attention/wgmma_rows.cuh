// What a warpgroup does with 64 queries in attention by wgmma: products, the softmax, and the results. A warp has 16 rows, and a lane of it a part of
// two, g and g + 8.
//
// Queries, keys and values lie in shared memory as blocks of 8 rows and 8 columns: kNextColumns bytes further the next 8 columns begin, kNextRows
// bytes further the next 8 rows. Scores and exponentials of kCount numbers a lane are of 2 kCount keys.
#pragma once

#include "attention/layer.cuh"
#include "attention/rounded.cuh"
#include "wgmma.cuh"

// Begins the products of the queries and the keys.
template <unsigned kNextColumns, unsigned kNextRows, int kCount>
__device__ __forceinline__ void multiply_keys(float (&scores)[kCount], unsigned queries, unsigned keys) {
  const unsigned long long q = wgmma_operand<kNextColumns, kNextRows>(queries), k = wgmma_operand<kNextColumns, kNextRows>(keys);
#pragma unroll
  for (int step = 0; step < kPadded / 16; ++step) {
    constexpr unsigned kNext = 2 * kNextColumns / 16;
    wgmma_multiply<T>(scores, q + step * kNext, k + step * kNext, step > 0);
  }
}

// Begins those of shares and values.
template <unsigned kNextColumns, unsigned kNextRows, int kSixteens>
__device__ __forceinline__ void multiply_values(float (&sums)[kPadded / 2], const unsigned (&shares)[kSixteens][4], unsigned values) {
  const unsigned long long v = wgmma_operand<kNextRows, kNextColumns>(values);
#pragma unroll
  for (int step = 0; step < kSixteens; ++step) wgmma_multiply<true, T, true>(sums, shares[step], v + step * 2 * (kNextRows / 16));
}

// The exponentials, as the left operand of the products with values.
template <int kSixteens, int kCount>
__device__ __forceinline__ void round_shares(unsigned (&shares)[kSixteens][4], const float (&exponentials)[kCount]) {
  static_assert(kCount == 8 * kSixteens);
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) shares[i / 4][i % 4] = rounded<T>(exponentials[2 * i], exponentials[2 * i + 1]);
}

constexpr float kMostAbove = 8.0f;  // 2^8 is far below what fp16 can hold

// The key of a lane's score i, in its tile.
__device__ __forceinline__ int key_of(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

struct TwoRows {
  // What exponentials are relative to, in units of 1 / log2(e): the largest score but for a factor of up to 2^kMostAbove. So sums seldom get a factor.
  float most[2] = {softmax::nothing(), softmax::nothing()};
  float total[2] = {};                                       // of this lane's exponentials

  // Products become exponentials; returns the factors of what was added up before. `left`: keys, perhaps more than there are products.
  // kScaled: the products have their factor, and what is behind the last key is -infinity.
  template <bool kScaled = false, int kCount>
  __device__ __forceinline__ void exponentials_of(float (&scores)[kCount], float (&kept)[2], int left) {
    constexpr float kFactor = kScale * kLog2E;
    constexpr bool kLater = !kScaled && kFactor > 0.0f;  // the factor leaves the largest the largest, and comes with the exponential
    if (!kScaled && (!kLater || left < 2 * kCount)) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if constexpr (!kLater) scores[i] *= kFactor;
        if (key_of(i) >= left) scores[i] = softmax::nothing();
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float partial[4] = {softmax::nothing(), softmax::nothing(), softmax::nothing(), softmax::nothing()};  // chains of their own
#pragma unroll
      for (int i = 2 * r; i < kCount; i += 4) partial[i / 4 % 4] = fmaxf(partial[i / 4 % 4], fmaxf(scores[i], scores[i + 1]));
      float largest = fmaxf(fmaxf(partial[0], partial[1]), fmaxf(partial[2], partial[3]));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      if constexpr (kLater) largest *= kFactor;
      largest = largest - most[r] > kMostAbove ? largest : most[r];
      const float base = softmax::reference_of(largest);
      const auto exponential = [&](float score) { return exp2_approx(kLater ? fmaf(score, kFactor, -base) : score - base); };
      kept[r] = exp2_approx(most[r] - base);
      most[r] = largest;
      float sums[4] = {};
#pragma unroll
      for (int i = 2 * r; i < kCount; i += 4) {
#pragma unroll
        for (int e = i; e < i + 2; ++e) sums[i / 4 % 2 * 2 + e % 2] += scores[e] = exponential(scores[e]);
      }
      total[r] = fmaf(total[r], kept[r], (sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
  }
};

// What the sums of a lane's two rows are multiplied by at the end.
template <typename Layer>
__device__ __forceinline__ float share_of(float total) {
  total += __shfl_xor_sync(kAllLanes, total, 1);
  total += __shfl_xor_sync(kAllLanes, total, 2);
  return has_key<Layer>(total) ? 1.0f / total : 1.0f;
}

// Stores the results of rows `row` and 8 further of a head.
template <typename Layer>
__device__ __forceinline__ void store_rows(const Layer& layer, int image, int head, int row, const TwoRows& rows, const float (&sums)[kPadded / 2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float share = share_of<Layer>(rows.total[r]);
    if (row + 8 * r >= layer.m) continue;
    T* const to = layer.result(image, head, row + 8 * r) + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 2 * r; i < kDepth / 2; i += 4) {
      store_vector(to + 2 * (i - 2 * r), Vector<T, 2>{{from_float<T>(sums[i] * share), from_float<T>(sums[i + 1] * share)}});
    }
  }
}
