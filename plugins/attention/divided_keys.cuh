// Attention on tensor cores where rows are few: sm_80 and newer.
//
// Mapping: a block has 16 queries of a head, and each of its warps some of the keys, 32 at a time, which it brings into a part of shared memory of its
// own (by_tensor_cores.cuh). At the end all threads join what the warps have: sums of values, and totals, become relative to the largest score of all
// warps, and are added in the order of the warps.
// Bytes: k and v once for each 16 queries, from L2; q once for each warp; the mask and y once.
#pragma once

#include "attention/by_tensor_cores.cuh"

constexpr int kQueries = 16;            // of a block
constexpr int kJoinPitch = kDepth + 4;  // floats of a row in shared memory: the sums, and then the largest score and the total
static_assert(kQueries * kJoinPitch * 4 <= Tile<WarpTeam>::kSharedBytes);  // they take the place of keys and values

template <int kThreads>
constexpr int kDividedBytes = kThreads / 32 * Tile<WarpTeam>::kSharedBytes;

// Leaves what a warp has of its keys.
__device__ __forceinline__ void leave_part(float* part, const WarpRows& rows) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float* const row = part + (g + 8 * r) * kJoinPitch;
#pragma unroll
    for (int i = 0; i < kDepth / 8; ++i) {
      *reinterpret_cast<float2*>(row + i * 8 + 2 * t) = make_float2(rows.sums[i][2 * r], rows.sums[i][2 * r + 1]);
    }
    float total = rows.total[r];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    if (t == 0) *reinterpret_cast<float2*>(row + kDepth) = make_float2(rows.most[r], total);
  }
}

template <int kThreads, typename Layer>
__device__ __forceinline__ void attention_by_divided_keys(unsigned char* shared, const Layer& layer) {
  using Operands = ::Operands<T, WarpTeam, typename Layer::Rows>;
  constexpr int kWarps = kThreads / 32, kOfWarp = Tile<WarpTeam>::kSharedBytes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (are_few<kQueries * kDepth>(gridDim.x)) allow_next_kernel();
  const auto [image, head, first_row] = Part(layer, blockIdx.x, kQueries);
  const int query = first_row + lane / 4;
  const typename Layer::Mask::Row mask[2] = {layer.mask.row(image, head, smaller(query, layer.m - 1)),
                                             layer.mask.row(image, head, smaller(query + 8, layer.m - 1))};
  Operands operands(shared + warp * kOfWarp, layer.head(image, head), first_row, warp * kKeys);
  const WarpRows rows = rows_after(operands, mask, warp * kKeys, kWarps * kKeys);
  operands.leave();
  leave_part(reinterpret_cast<float*>(shared + warp * kOfWarp), rows);
  __syncthreads();

  // A warp joins a row after the other; a lane has each 32nd pair of its columns.
  unsigned again = 0;  // a bit for each row
#pragma unroll
  for (int row = warp; row < kQueries; row += kWarps) {
    const float* const parts = reinterpret_cast<const float*>(shared) + row * kJoinPitch;
    float largest = softmax::nothing(), total = 0.0f, most = 0.0f, factors[kWarps];
#pragma unroll
    for (int i = 0; i < kWarps; ++i) largest = fmaxf(largest, parts[i * kOfWarp / 4 + kDepth]);
    const float base = softmax::reference_of(largest);
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      factors[i] = Operands::exponential(parts[i * kOfWarp / 4 + kDepth] - base);
      total = fmaf(parts[i * kOfWarp / 4 + kDepth + 1], factors[i], total);
    }
    const bool keyed = has_key<Layer>(total);
    const float share = keyed ? 1.0f / total : 1.0f;
#pragma unroll
    for (int column = 2 * lane; column < kDepth; column += 64) {
      float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
      for (int i = 0; i < kWarps; ++i) {
        const float2 part = *reinterpret_cast<const float2*>(parts + i * kOfWarp / 4 + column);
        sum.x = fmaf(part.x, factors[i], sum.x), sum.y = fmaf(part.y, factors[i], sum.y);
      }
      sum.x *= share, sum.y *= share;
      if constexpr (Operands::kRange) most = max_nan(most, max_nan(fabsf(sum.x), fabsf(sum.y)));
      const Vector<T, 2> rounded{{from_float<T>(sum.x), from_float<T>(sum.y)}};
      if (first_row + row < layer.m) store_vector(layer.result(image, head, first_row + row) + column, rounded);
    }
    if constexpr (Operands::kRange) {
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2) most = max_nan(most, __shfl_xor_sync(kAllLanes, most, offset));
      again |= static_cast<unsigned>(!(most >= (keyed ? kLeastX : 0.0f)) && first_row + row < layer.m) << row;
    }
  }
  if constexpr (Operands::kRange) again_plainly(layer, image, head, first_row, again);
}
