// A dense layer by wgmma, Hopper's own instruction for its tensor cores.
//
// Mapping: a block stays and takes tile after tile (tile.cuh). Its first warpgroup lets the stages be copied. The two others multiply
// them, and finish the tile: the kernel's `Layer` says how. Where tiles are few, the blocks of a cluster divide the inputs of one: each leaves
// its sums in its shared memory, adds up some rows of all, in the same order always, and finishes these.
// Bytes: x once for each 128 outputs and the weights once for each 128 rows, from L2; y once.
#pragma once

#include "block_cluster.cuh"
#include "copies.cuh"
#include "linear/tile.cuh"
#include "wgmma.cuh"

// The warpgroup that fills the stages.
template <typename Plan, typename Layer>
__device__ __forceinline__ void fill_stages(const Stages<Plan>& ring, const Layer& layer) {
  constexpr int kOfPiece = 16 / sizeof(T), kPieces = Plan::kDepth / kOfPiece, kRowsAtOnce = kRole / kPieces;  // of 16 bytes
  const int thread = threadIdx.x, piece = thread % kPieces;
  const unsigned to = ring.address + thread / kPieces * Plan::kRowBytes + piece * 16;
  Share<Plan> share;
  Turn<Plan> turn;
#pragma unroll 1
  for (; share.tile < tiles(layer.n); share.advance()) {
    const Place place(share.tile);
    const unsigned bytes = (kFull ? kColumns : smaller(kColumns, kOutputs - place.column)) / kEight * kOfEight * 2;
#pragma unroll 1
    for (int step = share.first; step < share.last; ++step) {
      const unsigned stage = turn.stage * Plan::kStageBytes, full = ring.full(turn.stage);
      wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
      if (thread == 0) {
        expect_bytes(full, Plan::kChunks * kParts * bytes);
#pragma unroll
        for (int i = 0; i < Plan::kChunks * kParts; ++i) {
          const auto* from = layer.weights + ((step * Plan::kChunks * kParts + i) * kOfAll + place.column / kEight * kOfEight);
          begin_bulk_copy(ring.address + stage + Plan::kXBytes + i * Plan::kWeightBytes, from, bytes, full);
        }
      }
#pragma unroll
      for (int row = 0; row < kTileRows; row += kRowsAtOnce) {
        const int from = place.row + row + thread / kPieces;
        const bool exists = from < layer.n;
        const T* const of_x = layer.row(exists ? from : 0) + (step * Plan::kDepth + piece * kOfPiece);
        copy_async<16>(to + stage + row * Plan::kRowBytes, of_x, exists ? 16 : 0);
      }
      arrive_with_copies(full);
      turn.advance();
    }
  }
}


// Some rows of a tile, from the shared memory of all blocks of a cluster; a thread has runs of 4 outputs.
template <int kSplits, typename Layer>
__device__ __forceinline__ void finish_share(const Layer& layer, const float* sums, const Place& place) {
  constexpr int kRun = 4, kRunsOfRow = kColumns / kRun, kRows = kTileRows / kSplits;
#pragma unroll 1
  for (int run = threadIdx.x - kRole; run < kRows * kRunsOfRow; run += 2 * kRole) {
    const int row = blockIdx.x % kSplits * kRows + run / kRunsOfRow, column = run % kRunsOfRow * kRun;
    const int feature = place.column + column;
    if (place.row + row >= layer.n || feature >= kOutputs) continue;
    const float* of_row = sums + row * kSumPitch;
    float total[kRun] = {};
    int largest = 0;
#pragma unroll
    for (unsigned other = 0; other < kSplits; ++other) {
      const float4 part = read_remote(of_row + column, other);
      total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
      if constexpr (kParts == 2) largest = max(largest, __float_as_int(read_remote(of_row + kColumns, other).x));
    }
    layer.finish(total, largest, place.row + row, feature);
  }
}

// The blocks of a cluster finish a tile. A lane has sums of `row`, of the tile, and of the row 8 further. `largest`: of x in these rows, as bits,
// where floats are split.
template <typename Plan, typename Layer>
__device__ __forceinline__ void finish_together(const Stages<Plan>& ring, const Layer& layer, const float (&sums)[kColumns / 2],
                                                const int (&largest)[2], const Place& place, int row) {
  const int t = threadIdx.x % 4;
  float* const shared_sums = reinterpret_cast<float*>(ring.stages);
  wait_for_group<2 * kRole>();  // both warpgroups have left the stages
#pragma unroll
  for (int i = 0; i < kColumns / 2; i += 2) {
    float* const to = shared_sums + (row + i / 2 % 2 * 8) * kSumPitch + i / 4 * kEight + 2 * t;
    *reinterpret_cast<float2*>(to) = make_float2(sums[i], sums[i + 1]);
  }
  if constexpr (kParts == 2) {
    if (t < 2) shared_sums[(row + 8 * t) * kSumPitch + kColumns] = __int_as_float(largest[t]);
  }
  cluster_arrive();
  cluster_wait();
  finish_share<Plan::kSplits>(layer, shared_sums, place);
  cluster_arrive_relaxed();  // the others have read this block's memory
  cluster_wait();
}

// The roles of a block's warpgroups. Layer::kLoadRegisters and Layer::kMultiplyRegisters: what a thread of each has.
template <typename Plan, typename Layer>
__device__ __forceinline__ void linear_by_wgmma(unsigned char* memory, const Layer& layer) {
  const Stages<Plan> ring(memory);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  if (threadIdx.x < kRole) {
    keep_registers<Layer::kLoadRegisters>();
    fill_stages(ring, layer);
  } else {
    take_registers<Layer::kMultiplyRegisters>();
    multiply_tiles(ring, layer);
  }
}
