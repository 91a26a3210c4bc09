// A dense layer by wgmma, Hopper's own instruction for its tensor cores.
//
// Mapping: a block stays and takes tile after tile (tile.cuh). One warpgroup lets the stages be copied, as the kernel says; two multiply, and finish
// the tile. Where tiles are few, the blocks of a cluster divide the inputs of one: each leaves its sums in its shared memory, adds up some rows
// of all, in the same order always, and finishes these. Where rows are few, such a block begins to copy the weights of its first steps before
// the kernel in front has ended, and allows the next launch when it has.
// Bytes: x once for each tile across the outputs and the weights once for each 128 rows, from L2; y once.
#pragma once

#include "block_cluster.cuh"
#include "copies.cuh"
#include "linear/tile.cuh"
#include "wgmma.cuh"

constexpr int kMultipliers = 2 * kRole;
constexpr int kLoadRegisters = 40;  // of a thread

// Says how many bytes come to a stage: those of x, where a box has them, and those of weights.
template <typename Plan>
__device__ __forceinline__ void expect_stage(unsigned full, unsigned weight_bytes) {
  expect_bytes(full, (kMapped ? kTileRows * Plan::kPitch * sizeof(T) : 0) + weight_bytes);
}

// The bytes of a chunk's weights, hi or lo, for the tile that begins at this column.
template <typename Plan>
__device__ __forceinline__ unsigned weight_bytes(int column) {
  return (Plan::kFull ? Plan::kColumns : smaller(Plan::kColumns, kOutputs - column)) / kEight * kOfEight * 2;
}

// Begins to copy the weights of a step to a stage.
template <typename Plan, typename Layer>
__device__ __forceinline__ void begin_weights(const Ring<Plan>& ring, const Layer& layer, unsigned stage, unsigned full, int column, int step,
                                              unsigned bytes) {
#pragma unroll
  for (int i = 0; i < Plan::kChunks * kParts; ++i) {
    const auto* from = layer.weights + ((step * Plan::kChunks * kParts + i) * kOfAll + column / kEight * kOfEight);
    begin_bulk_copy(ring.address + Plan::weights_at(stage, step) + i * Plan::kWeightBytes, from, bytes, full);
  }
}

// What one thread does before it waits for the kernel in front: the first steps of the block's only tile get their weights.
template <typename Plan, typename Layer>
__device__ __forceinline__ void begin_ahead(const Ring<Plan>& ring, const Layer& layer) {
  if constexpr (kMapped) prefetch_map(layer.map);
  const Share<Plan> share;
  const int column = Plan::place(share.tile).column;
  const unsigned bytes = weight_bytes<Plan>(column);
#pragma unroll
  for (int i = 0; i < Plan::kAhead; ++i) {
    expect_stage<Plan>(ring.full(i), Plan::kChunks * kParts * bytes);
    begin_weights(ring, layer, i * Plan::kStageBytes, ring.full(i), column, share.first + i, bytes);
  }
}

// Thread `thread` of those that fill the stages; with a tensor map of x the first one does it alone: the layer's begin_box asks for a box. `begun`:
// the first steps have their weights already.
template <typename Plan, typename Layer>
__device__ __forceinline__ void fill_stages(const Ring<Plan>& ring, Layer& layer, int thread, bool begun) {
  Share<Plan> share;
  Turn<Plan> turn;
  bool copies_weights = true;
  if constexpr (kMapped) {
    if (thread != 0) return;
    if (!begun) prefetch_map(layer.map);
  }
#pragma unroll 1
  for (; share.tile < Plan::tiles(layer.n); share.advance()) {
    const Place place = Plan::place(share.tile);
    const unsigned bytes = weight_bytes<Plan>(place.column);
#pragma unroll 1
    for (int step = share.first; step < share.last; ++step) {
      const unsigned stage = turn.stage * Plan::kStageBytes, full = ring.full(turn.stage);
      wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
      const bool ahead = begun && step < share.first + Plan::kAhead;
      if (thread == 0) {
        if (!ahead) expect_stage<Plan>(full, copies_weights ? Plan::kChunks * kParts * bytes : 0);
        if constexpr (kMapped) layer.template begin_box<Plan>(ring.address + stage, place.row, step, full);
      }
      if (thread == 0 && copies_weights && !ahead) begin_weights(ring, layer, stage, full, place.column, step, bytes);
      if constexpr (!kMapped) {
        layer.template begin_copy<Plan>(ring.address, stage, place.row, step, thread);
        arrive_with_copies(full);
      }
      turn.advance();
    }
    copies_weights = !Plan::kWeightsStay;
  }
}

// Some rows of a tile, from the shared memory of all blocks of a cluster; thread `thread` of those that multiply has runs of 4 outputs.
template <typename Plan, typename Layer>
__device__ __forceinline__ void finish_share(const Layer& layer, const float* sums, const Place& place, int thread) {
  constexpr int kRun = 4, kRunsOfRow = Plan::kColumns / kRun, kRows = kTileRows / Plan::kSplits;
#pragma unroll 1
  for (int run = thread; run < kRows * kRunsOfRow; run += kMultipliers) {
    const int row = blockIdx.x % Plan::kSplits * kRows + run / kRunsOfRow, column = run % kRunsOfRow * kRun;
    const int feature = place.column + column;
    if (place.row + row >= Plan::end(place.row, layer.n) || feature >= kOutputs) continue;
    const float* of_row = sums + row * Plan::kSumPitch;
    float total[kRun] = {};
    int largest = 0;
#pragma unroll
    for (unsigned other = 0; other < Plan::kSplits; ++other) {
      const float4 part = read_remote(of_row + column, other);
      total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
      if constexpr (kParts == 2) largest = max(largest, __float_as_int(read_remote(of_row + Plan::kColumns, other).x));
    }
    layer.finish(total, largest, place.row + row, feature);
  }
}

// The blocks of a cluster finish a tile. A lane has sums of `row`, of the tile, and of the row 8 further. `largest`: of x in these rows, as bits,
// where floats are split.
template <typename Plan, typename Layer>
__device__ __forceinline__ void finish_together(const Ring<Plan>& ring, const Layer& layer, const float (&sums)[Plan::kColumns / 2],
                                                const int (&largest)[2], const Place& place, int row, int thread) {
  const int t = threadIdx.x % 4;
  float* const shared_sums = reinterpret_cast<float*>(ring.stages);
  wait_for_group<kMultipliers>();  // both warpgroups have left the stages
#pragma unroll
  for (int i = 0; i < Plan::kColumns / 2; i += 2) {
    float* const to = shared_sums + (row + i / 2 % 2 * 8) * Plan::kSumPitch + i / 4 * kEight + 2 * t;
    *reinterpret_cast<float2*>(to) = make_float2(sums[i], sums[i + 1]);
  }
  if constexpr (kParts == 2) {
    if (t < 2) shared_sums[(row + 8 * t) * Plan::kSumPitch + Plan::kColumns] = __int_as_float(largest[t]);
  }
  cluster_arrive();
  cluster_wait();
  finish_share<Plan>(layer, shared_sums, place, thread);
  cluster_arrive_relaxed();  // the others have read this block's memory
  cluster_wait();
}

// A block. `multiply_tiles(ring, layer, thread)`, of the kernel, is what the threads that multiply do. The kernel's struct of arguments is copied:
// a thread that copies may keep in it what it knows of a tile.
template <typename Plan, typename Layer>
__device__ __forceinline__ void dense_by_wgmma(unsigned char* memory, Layer layer) {
  constexpr bool kCopiesAhead = Plan::kAhead > 0;
  if constexpr (!kCopiesAhead) wait_for_previous_kernel();
  const Ring<Plan> ring(memory);
  const bool few = kCopiesAhead && are_few<smaller(kInputs, kOutputs)>(layer.n);
  if (threadIdx.x == 0) {
    ring.init();
    if (few) begin_ahead(ring, layer);
  }
  __syncthreads();
  if constexpr (kCopiesAhead) {
    wait_for_previous_kernel();
    if (few) allow_next_kernel();
  }
  in_roles<kLoadRegisters>([&] { fill_stages(ring, layer, threadIdx.x, few); },
                           [&] { multiply_tiles(ring, layer, static_cast<int>(threadIdx.x) - kRole); });
}
