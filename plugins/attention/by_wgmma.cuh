// Attention in fp16 and bfloat16 by wgmma, Hopper's own instruction for its tensor cores.
//
// Mapping: a block stays and takes part after part: a head and 64 queries for each of the warpgroups that multiply. These go over the keys, 64 at a
// time, each at its own pace; one more warpgroup lets queries, keys and values be copied, from where wgmma reads them. Scores and sums stay in
// registers, 16 rows in a warp, as in by_tensor_cores.cuh, whose softmax this is. The products of the next keys come before those of these values:
// while the tensor cores have them, the threads compute exponentials.
// Bytes: q and y once; k and v once for each part, from L2.
//
// There is no mask here: what is added to scores would have to be loaded where they are, and by_tensor_cores.cuh was faster with it.
#pragma once

#include "attention/key_ring.cuh"
#include "attention/rounded.cuh"

// Begins the products of 64 queries and as many keys.
__device__ __forceinline__ void multiply_keys(float (&scores)[kKeys / 2], unsigned queries, unsigned keys) {
  const unsigned long long q = wgmma_operand<kNextColumns, kNextRows>(queries), k = wgmma_operand<kNextColumns, kNextRows>(keys);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    constexpr unsigned kNext = 2 * kNextColumns / 16;
    wgmma_multiply<T>(scores, q + step * kNext, k + step * kNext, step > 0);
  }
}

// Begins those of shares and values.
__device__ __forceinline__ void multiply_values(float (&sums)[kDepth / 2], const unsigned (&shares)[kKeys / 16][4], unsigned values) {
  const unsigned long long v = wgmma_operand<kNextRows, kNextColumns>(values);
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) wgmma_multiply<true, T, true>(sums, shares[step], v + step * 2 * (kNextRows / 16));
}

// A lane's part of two rows, g and g + 8 of its warp.
struct TwoRows {
  float most[2] = {softmax::nothing(), softmax::nothing()};  // of their scores
  float total[2] = {};                                   // of this lane's exponentials

  // Products become exponentials; returns the factors of what was added up before. `left`: keys, perhaps more than kKeys.
  __device__ __forceinline__ void exponentials_of(float (&scores)[kKeys / 2], float (&kept)[2], int left) {
    constexpr float kFactor = kScale * kLog2E;
    const int t = threadIdx.x % 4;
    constexpr bool kLater = kFactor > 0.0f;  // the factor leaves the largest the largest, and comes with the exponential
    if (!kLater || left < kKeys) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        const int key = i / 4 * 8 + t * 2 + i % 2;
        if constexpr (!kLater) scores[i] *= kFactor;
        if (key >= left) scores[i] = softmax::nothing();
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float partial[4] = {most[r], softmax::nothing(), softmax::nothing(), softmax::nothing()};  // chains of their own
#pragma unroll
      for (int i = 2 * r; i < kKeys / 2; i += 4) partial[i / 4 % 4] = fmaxf(partial[i / 4 % 4], fmaxf(scores[i], scores[i + 1]));
      float largest = fmaxf(fmaxf(partial[0], partial[1]), fmaxf(partial[2], partial[3]));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      const float base = softmax::reference_of(largest) * (kLater ? kFactor : 1.0f);
      const auto exponential = [&](float score) { return exp2_approx(kLater ? fmaf(score, kFactor, -base) : score - base); };
      kept[r] = exponential(most[r]);
      most[r] = largest;
      float sums[4] = {};
#pragma unroll
      for (int i = 2 * r; i < kKeys / 2; i += 4) {
#pragma unroll
        for (int e = i; e < i + 2; ++e) sums[i / 4 % 2 * 2 + e % 2] += scores[e] = exponential(scores[e]);
      }
      total[r] = fmaf(total[r], kept[r], (sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
  }
};

// What a warpgroup that multiplies does.
template <typename Layer>
__device__ __forceinline__ void multiply_parts(const KeyRing& ring, const Layer& layer, int parts) {
  static_assert(!Layer::Mask::Row::kAdds);
  const int group = warpgroup() - 1, lane = threadIdx.x % 32;
  const int row_of_part = group * 64 + threadIdx.x % kRole / 32 * 16 + lane / 4;  // the lane has it and the one 8 further
  Turn<KeyPlan> turn;
  int count = 0;
#pragma unroll 1
  for (int number = blockIdx.x; number < parts; number += gridDim.x, ++count) {
    const Part part(layer, number, kRows);
    const int row = part.first_row + row_of_part;
    const unsigned queries = ring.queries(count) + group * (64 / kEight) * kNextRows;
    TwoRows rows;
    float scores[kKeys / 2], sums[kDepth / 2] = {};
    unsigned shares[kKeys / 16][4];
    const auto wait = [&] {
      wait_for_bytes(ring.full(turn.stage), turn.parity);
      publish_to_units();  // what the copies of threads wrote
      return ring.address + turn.stage * KeyPlan::kStageBytes;
    };
    unsigned stage = wait();
    wgmma_begin();
    multiply_keys(scores, queries, stage);
    wgmma_finish(scores);
    int before = -1;  // the stage whose values may still be multiplied
#pragma unroll 1
    for (int key = 0;; key += kKeys) {
      float kept[2];
      rows.exponentials_of(scores, kept, layer.t - key);
      wgmma_finish_groups(sums);
      if (before >= 0 && lane == 0) arrive(ring.empty(before));
      if (__any_sync(kAllLanes, kept[0] != 1.0f || kept[1] != 1.0f)) {
#pragma unroll
        for (int i = 0; i < kDepth / 2; ++i) sums[i] *= kept[i / 2 % 2];
      }
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i) shares[i / 4][i % 4] = rounded<T>(scores[2 * i], scores[2 * i + 1]);
      const unsigned values = stage + kPart;
      before = turn.stage;
      turn.advance();
      if (key + kKeys >= layer.t) {
        if (lane == 0) arrive(ring.free(count));
        wgmma_begin();
        multiply_values(sums, shares, values);
        wgmma_finish(sums);
        break;
      }
      stage = wait();
      wgmma_begin();
      multiply_keys(scores, queries, stage);
      wgmma_commit();
      wgmma_wait<1>();  // for none: a group of their own
      wgmma_begin();
      multiply_values(sums, shares, values);
      wgmma_commit();
      wgmma_wait<1>();  // for the scores
      wgmma_finish_with(scores);
    }
    if (lane == 0) arrive(ring.empty(before));
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float total = rows.total[r];
      total += __shfl_xor_sync(kAllLanes, total, 1);
      total += __shfl_xor_sync(kAllLanes, total, 2);
      const float share = 1.0f / total;
      if (row + 8 * r >= layer.m) continue;
      T* const to = layer.result(part.image, part.head, row + 8 * r) + lane % 4 * 2;
#pragma unroll
      for (int i = 2 * r; i < kDepth / 2; i += 4) {
        store_vector(to + 2 * (i - 2 * r), Vector<T, 2>{{from_float<T>(sums[i] * share), from_float<T>(sums[i + 1] * share)}});
      }
    }
  }
}

template <typename Layer>
__device__ __forceinline__ void attention_by_wgmma(unsigned char* shared, const Layer& layer, int images) {
  const KeyRing ring(shared);
  const int parts = ceil_div(layer.m, kRows) * images * layer.heads;
  if (threadIdx.x == 0) {
    ring.init();
    init_barrier(ring.free(0), kReaders);
    init_barrier(ring.free(1), kReaders);
  }
  __syncthreads();
  // Not by reference: with copies the kernel is as it was measured (NVVM 13.0).
  in_roles<kLoadRegisters, kMultipliers + 1>([=] { load_parts(ring, layer, parts); }, [=] { multiply_parts(ring, layer, parts); });
}
