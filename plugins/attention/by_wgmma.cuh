// Attention in fp16 and bfloat16 by wgmma, Hopper's own instruction for its tensor cores.
//
// Mapping: a block stays and takes part after part: a head and 64 queries for each of the warpgroups that multiply. These go over the keys, 64 at a
// time, each at its own pace; one more warpgroup lets queries, keys and values be copied, from where wgmma reads them. Scores and sums stay in
// registers, 16 rows in a warp, as in by_tensor_cores.cuh, whose softmax this is. The products of the next keys come before those of these values:
// while the tensor cores have them, the threads compute exponentials.
// Bytes: q and y once; k and v once for each part, from L2.
//
// There is no mask here: what is added to scores would have to be loaded where they are, and by_tensor_cores.cuh was faster with it. Long sequences with
// a mask: by_arranged_tiles.cuh.
#pragma once

#include "attention/key_ring.cuh"
#include "attention/wgmma_rows.cuh"

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
    float scores[kKeys / 2], sums[kPadded / 2] = {};
    unsigned shares[kKeys / 16][4];
    const auto wait = [&] {
      wait_for_bytes(ring.full(turn.stage), turn.parity);
      publish_to_units();  // what the copies of threads wrote
      return ring.address + turn.stage * KeyPlan::kStageBytes;
    };
    unsigned stage = wait();
    wgmma_begin();
    multiply_keys<kNextColumns, kNextRows>(scores, queries, stage);
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
        for (int i = 0; i < kPadded / 2; ++i) sums[i] *= kept[i / 2 % 2];
      }
      round_shares(shares, scores);
      const unsigned values = stage + kPart;
      before = turn.stage;
      turn.advance();
      if (key + kKeys >= layer.t) {
        if (lane == 0) arrive(ring.free(count));
        wgmma_begin();
        multiply_values<kNextColumns, kNextRows>(sums, shares, values);
        wgmma_finish(sums);
        break;
      }
      stage = wait();
      wgmma_begin();
      multiply_keys<kNextColumns, kNextRows>(scores, queries, stage);
      wgmma_commit();
      wgmma_wait<1>();  // for none: a group of their own
      wgmma_begin();
      multiply_values<kNextColumns, kNextRows>(sums, shares, values);
      wgmma_commit();
      wgmma_wait<1>();  // for the scores
      wgmma_finish_with(scores);
    }
    if (lane == 0) arrive(ring.empty(before));
    store_rows(layer, part.image, part.head, row, rows, sums);
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
  clear_padding(shared);
  __syncthreads();
  // Not by reference: with copies the kernel is as it was measured (NVVM 13.0).
  in_roles<kLoadRegisters, kMultipliers + 1>([=] { load_parts(ring, layer, parts); }, [=] { multiply_parts(ring, layer, parts); });
}
