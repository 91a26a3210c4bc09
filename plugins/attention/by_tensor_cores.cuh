// Attention on tensor cores: sm_80 and newer.
//
// Mapping: a block has a head and 16 queries for each warp, and goes over the keys, 32 or 64 at a time. All its threads bring the queries once,
// and keys and values each time, into shared memory. Then each warp computes its scores, their exponentials relative to the largest score so far,
// and adds these shares of the values to its sums, which become smaller where a larger score comes (online softmax). Scores never leave the
// registers: the sums of the first product lie in the lanes as the left operand of the second has to.
// Bytes: q, y and the mask once; k and v once for each block of queries, from L2.
//
// Floats are split into two fp16 numbers each (split_operands.cuh). A number beyond fp16 becomes an infinity and a NaN, so all of its sums are
// NaN. Such rows, and those whose results are so small that lo may not be exact, are computed again, plainly.
#pragma once

#include "attention/half_operands.cuh"
#include "attention/split_operands.cuh"

// A warp's 16 rows.
struct WarpRows {
  float sums[kDepth / 8][4] = {};
  float most[2] = {softmax::nothing(), softmax::nothing()};  // of the scores of rows g and g + 8
  float total[2] = {};                                   // of this lane's exponentials
  float kept[2];                                         // of the sums and totals before: their factor now
};

// What is added to the scores of each row of a warp; minus infinity where there is no key.
template <typename Operands, typename MaskRow>
__device__ __forceinline__ void begin_scores(float (&scores)[kKeys / 8][4], const MaskRow (&mask)[2], int first_key, int keys) {
#pragma unroll
  for (int i = 0; i < kKeys / 2; ++i) {
    const int key = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
    float& score = scores[i / 4][i % 4];
    score = key < keys ? 0.0f : softmax::nothing();
    if (MaskRow::kAdds && key < keys) score = Operands::in_score(mask[i / 2 % 2].added(first_key + key));
  }
}

// Adds the products of queries and keys. Zeros lie behind the last key, of which an infinite query makes NaN: where a mask may hide all keys, and
// the result is then 0, they are left out.
template <bool kMasked, typename Operands>
__device__ __forceinline__ void add_scores(float (&scores)[kKeys / 8][4], const Operands& operands, unsigned of_keys, int keys) {
#pragma unroll
  for (int of = 0; of < kKeys / 8; of += Operands::kSums) {
    if (of * 8 >= keys) continue;
#pragma unroll
    for (int first = 0; first < kSteps; first += Operands::kStepsAtOnce) {
      typename Operands::template Sums<Operands::kSums> sums;
#pragma unroll
      for (int step = first; step < smaller(first + Operands::kStepsAtOnce, kSteps); ++step) {
        sums.template add<false, 16 * kPitch * 2>(operands.query(step), of_keys + (of * 8 * kPitch + step * 16) * 2);
      }
      const auto add = [&](int i) {
        float& score = scores[of + i / 4][i % 4];
        score = fmaf(sums.template of<smaller(Operands::kStepsAtOnce, kSteps)>(i), Operands::kFactor, score);
      };
      if (!kMasked || keys >= kKeys) {
#pragma unroll
        for (int i = 0; i < Operands::kSums * 4; ++i) add(i);
      } else {
#pragma unroll
        for (int i = 0; i < Operands::kSums * 4; ++i) {
          const int key = (of + i / 4) * 8 + threadIdx.x % 4 * 2 + i % 2;
          if (key < keys) add(i);
        }
      }
    }
  }
}

// Scores become exponentials; what was added up for rows whose largest score grew is to become smaller.
template <typename Operands>
__device__ __forceinline__ void exponentials_of(float (&scores)[kKeys / 8][4], WarpRows& rows) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = rows.most[r];
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i) most = fmaxf(most, fmaxf(scores[i][2 * r], scores[i][2 * r + 1]));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    const float base = softmax::reference_of(most);
    rows.kept[r] = Operands::exponential(rows.most[r] - base);
    rows.most[r] = most;
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i) {
#pragma unroll
      for (int e = 2 * r; e < 2 * r + 2; ++e) {
        scores[i][e] = Operands::exponential(scores[i][e] - base);
        total += scores[i][e];
      }
    }
    rows.total[r] = fmaf(rows.total[r], rows.kept[r], total);
  }
}

// Adds the values, each times its exponential.
template <typename Operands>
__device__ __forceinline__ void add_values(WarpRows& rows, const typename Operands::Left (&shares)[kKeys / 16], unsigned of_values, int keys) {
  constexpr int kBlocks = kDepth / 8 % Operands::kSums == 0 ? Operands::kSums : 2;  // of 8 columns
#pragma unroll
  for (int first = 0; first < kDepth / 8; first += kBlocks) {
    typename Operands::template Sums<kBlocks> sums;
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      if (step * 16 >= keys) continue;
      sums.template add<true, 16 * 2>(shares[step], of_values + (step * 16 * kPitch + first * 8) * 2);
    }
#pragma unroll
    for (int i = 0; i < kBlocks * 4; ++i) {
      float& sum = rows.sums[first + i / 4][i % 4];
      sum = fmaf(sum, rows.kept[i / 2 % 2], sums.template of<kKeys / 16>(i));
    }
  }
}

// A warp's 16 rows after all keys of its team: those from `first_key` on, kKeys at a time, `stride` keys further each time.
template <typename Operands, typename MaskRow>
__device__ __forceinline__ WarpRows rows_after(Operands& operands, const MaskRow (&mask)[2], int first_key, int stride) {
  const int lane = threadIdx.x % 32, keys = operands.head.t;
  // Where this lane's row of a matrix lies that ldmatrix loads: of keys, two products of 8 keys; of values, of 8 columns.
  const unsigned of_keys = operands.keys + ((lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8) * 2;
  const unsigned of_values = operands.values + (lane % 16 * kPitch + lane / 16 * 8) * 2;
  WarpRows rows;
#pragma unroll 1
  for (int step = 0; first_key < keys; ++step, first_key += stride) {
    const int left = keys - first_key;  // perhaps more than kKeys
    float scores[kKeys / 8][4];
    begin_scores<Operands>(scores, mask, first_key, left);
    const unsigned place = operands.bring(step, first_key, first_key + stride);
    add_scores<MaskRow::kAdds>(scores, operands, of_keys + place, left);
    exponentials_of<Operands>(scores, rows);
    typename Operands::Left shares[kKeys / 16];
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      const float* pair = &scores[i / 4 * 2 + i / 2 % 2][i % 2 * 2];
      shares[i / 4].set(i % 4, pair[0], pair[1]);
    }
    add_values<Operands>(rows, shares, of_values + place, left);
  }
  return rows;
}

// Rows of a head from `first_row` on that are to be computed again, a bit for each.
template <typename Layer>
__device__ __forceinline__ void again_plainly(const Layer& layer, int image, int head, int first_row, unsigned again) {
  again = __reduce_or_sync(kAllLanes, again);
  __syncwarp();  // before others write rows that a lane has written
#pragma unroll 1
  for (; again != 0; again &= again - 1) plain_row(layer, image, head, first_row + __ffs(static_cast<int>(again)) - 1);
}

template <int kThreads, typename Layer>
__device__ __forceinline__ void attention_by_tensor_cores(unsigned char* shared, const Layer& layer) {
  using Team = BlockTeam<kThreads>;
  using Operands = ::Operands<T, Team, typename Layer::Rows>;
  constexpr int kRows = Tile<Team>::kRows;
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  if (are_few<kRows * kDepth>(gridDim.x)) allow_next_kernel();
  const auto [image, head, first_row] = Part(layer, blockIdx.x, kRows);
  const int row = first_row + warp * 16 + g;  // the lane has it and the one 8 further
  const typename Layer::Mask::Row mask[2] = {layer.mask.row(image, head, smaller(row, layer.m - 1)),
                                             layer.mask.row(image, head, smaller(row + 8, layer.m - 1))};
  Operands operands(shared, layer.head(image, head), first_row, 0);
  const WarpRows rows = rows_after(operands, mask, 0, kKeys);

  unsigned again = 0;  // a bit for each row of the warp
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float total = rows.total[r], most = 0.0f;
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    const bool keyed = has_key<Layer>(total);
    const float share = keyed ? 1.0f / total : 1.0f;
#pragma unroll
    for (int i = 0; i < kDepth / 8; ++i) {
      const float pair[2] = {rows.sums[i][2 * r] * share, rows.sums[i][2 * r + 1] * share};
      if constexpr (Operands::kRange) most = max_nan(most, max_nan(fabsf(pair[0]), fabsf(pair[1])));
      const Vector<T, 2> rounded{{from_float<T>(pair[0]), from_float<T>(pair[1])}};
      if (row + 8 * r < layer.m) store_vector(layer.result(image, head, row + 8 * r) + 2 * t + 8 * i, rounded);
    }
    if constexpr (Operands::kRange) {
      most = max_nan(most, __shfl_xor_sync(kAllLanes, most, 1));
      most = max_nan(most, __shfl_xor_sync(kAllLanes, most, 2));
      again |= static_cast<unsigned>(!(most >= (keyed ? kLeastX : 0.0f)) && row + 8 * r < layer.m) << (g + 8 * r);
    }
  }
  if constexpr (Operands::kRange) again_plainly(layer, image, head, first_row + warp * 16, again);
}
