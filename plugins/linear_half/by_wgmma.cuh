// A product of rows and packed weights by wgmma, in fp16 or bfloat16. A lane loads its operands of x from shared memory; products have the
// weights there.
//
// The kernel's struct of arguments has what linear/by_wgmma.cuh wants of it (Tiled has begin_copy, where rows of x follow each other), and a template
// Tile<Plan>, the end of a tile: it is made of the arguments and a place when the tile begins, and finish(sums, memory, warp) stores the outputs.
#pragma once

#include "linear/by_wgmma.cuh"

template <typename Layer>
struct Tiled : Layer {
  // Begins to copy the rows of x for a stage, 16 bytes a thread, neighbouring ones of a row by neighbouring threads.
  template <typename Plan>
  __device__ __forceinline__ void begin_copy(unsigned stages, unsigned stage, int first_row, int step, int thread) const {
    constexpr int kPieces = Plan::kDepth / kEight, kRowsAtOnce = kRole / kPieces;
    const int piece = thread % kPieces, some = thread / kPieces;
    const T* const from = this->row(first_row + some) + (step * Plan::kDepth + piece * kEight);
    const unsigned to = stages + stage + (some * Plan::kPitch + piece * kEight) * 2;
#pragma unroll
    for (int i = 0; i < kTileRows; i += kRowsAtOnce) {
      copy_async<16>(to + i * Plan::kPitch * 2, from + i * kInputs,
                     first_row + some + i < this->n && Plan::has(step, piece * kEight) ? 16 : 0);  // none: zeros
    }
  }
};

// A warpgroup that multiplies its half of the rows of each tile; `thread` counts both.
template <typename Plan, typename Layer>
__device__ __forceinline__ void multiply_tiles(const Ring<Plan>& ring, const Layer& layer, int thread) {
  constexpr int kProducts = Plan::kDepth / 16;
  const int warp = thread / 32, lane = thread % 32, row = warp * 16 + lane / 4;  // of the tile; the lane has it and the one 8 further
  const unsigned of_x = ring.address + ((warp * 16 + lane % 16) * Plan::kPitch + lane / 16 * kEight) * 2;  // what ldmatrix asks this lane for
  Share<Plan> share;
  Turn<Plan> turn;
#pragma unroll 1
  for (; share.tile < Plan::tiles(layer.n); share.advance()) {
    const Place place = Plan::place(share.tile);
    const typename Layer::template Tile<Plan> tile(layer, place);
    float sums[Plan::kColumns / 2] = {};
#pragma unroll 1
    for (int step = share.first; step < share.last; ++step) {
      wait_for_bytes(ring.full(turn.stage), turn.parity);
      const unsigned stage = turn.stage * Plan::kStageBytes;
      unsigned x[kProducts][4];
#pragma unroll
      for (int product = 0; product < kProducts; ++product) load_matrices(x[product], of_x + stage + product * 32);
      const unsigned long long w = wgmma_operand<kEight * 16, kOfEight * 2>(ring.address + Plan::weights_at(stage, step));
      wgmma_begin();
#pragma unroll
      for (int product = 0; product < kProducts; ++product) {
        wgmma_multiply<true, T>(sums, x[product], w + product / 2 * (Plan::kWeightBytes / 16) + product % 2 * 2 * kEight);
      }
      wgmma_finish(sums);
      if (lane == 0) leave_stage(ring, turn.stage);
      turn.advance();
    }
    if constexpr (Plan::kSplits == 1) {
      tile.finish(sums, ring.stages, warp);
    } else {
      finish_together(ring, layer, sums, {}, place, row, thread);
      return;  // these blocks have one tile
    }
  }
}
