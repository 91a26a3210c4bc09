// A product of rows and packed weights by wgmma, in fp16 or bfloat16. A lane loads its operands of x from shared memory; products have the
// weights there.
//
// The kernel's struct of arguments has what linear/by_wgmma.cuh wants of it: Rows has that, where rows of x follow each other. It also has a
// template Stored<Plan>, the outputs on their way to y. That is made of the arguments, shared memory and the warp's number among those that
// multiply. begin(place) begins to load biases, take(sums) makes outputs of the sums there, and store(part) stores a part of them, one of kParts.
// A tile's outputs are stored while the products of the next one are under way.
#pragma once

#include "linear/by_wgmma.cuh"

#if LAUNCH_MAPS
// Rows of x come by a tensor map.
template <typename Layer>
struct Rows : Layer {
  const TensorMap* map;

  // Begins to copy the rows of x for a stage.
  template <typename Plan>
  __device__ __forceinline__ void begin_box(unsigned to, int first_row, int step, unsigned barrier) const {
    begin_tensor_copy(to, map, first_row, step * Plan::kDepth, barrier);
  }
};
#else
template <typename Layer>
struct Rows : Layer {
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
#endif

// The products of a warpgroup; `thread` counts those that multiply.
template <typename Plan>
struct Products {
  static constexpr int kOfStep = Plan::kDepth / 16;
  const Ring<Plan>& ring;
  const int lane;
  const unsigned of_x;  // what ldmatrix asks this lane for, of the first stage
  Turn<Plan> turn;

  __device__ __forceinline__ Products(const Ring<Plan>& ring, int thread)
      : ring(ring), lane(thread % 32), of_x(placed(ring.address + ((thread / 32 * 16 + lane % 16) * Plan::kPitch + lane / 16 * kEight) * 2)) {}

  // Where inputs of x lie that would be at this address if nothing changed places.
  static __device__ __forceinline__ unsigned placed(unsigned address) {
    if constexpr (kMapped) return swizzled<Plan::kDepth * 2>(address);
    return address;
  }
  // The same of a product that is so many bytes further in a row: a swizzle is an exclusive or.
  static __device__ __forceinline__ unsigned further(unsigned placed, int bytes) { return kMapped ? placed ^ bytes : placed + bytes; }

  // Adds those of a step to sums. `meanwhile` is done while they are under way.
  template <typename Work>
  __device__ __forceinline__ void add(float (&sums)[Plan::kColumns / 2], int step, const Work& meanwhile) {
    wait_for_bytes(ring.full(turn.stage), turn.parity);
    const unsigned stage = turn.stage * Plan::kStageBytes;
    unsigned x[kOfStep][4];
#pragma unroll
    for (int product = 0; product < kOfStep; ++product) load_matrices(x[product], further(of_x + stage, product * 32));
    const unsigned long long w = wgmma_operand<kEight * 16, kOfEight * 2>(ring.address + Plan::weights_at(stage, step));
    wgmma_begin();
#pragma unroll
    for (int product = 0; product < kOfStep; ++product) {
      wgmma_multiply<true, T>(sums, x[product], w + product / 2 * (Plan::kWeightBytes / 16) + product % 2 * 2 * kEight);
    }
    do_meanwhile(meanwhile);
    wgmma_finish_groups(sums);
    if (lane == 0) arrive(ring.empty(turn.stage));
    turn.advance();
  }
  __device__ __forceinline__ void add(float (&sums)[Plan::kColumns / 2], int step) {
    add(sums, step, [] {});
  }
};

// A warpgroup that multiplies its half of the rows of each tile.
template <typename Plan, typename Layer>
__device__ __forceinline__ void multiply_tiles(const Ring<Plan>& ring, const Layer& layer, int thread) {
  Products<Plan> products(ring, thread);
  Share<Plan> share;
  if constexpr (Plan::kSplits > 1) {  // these blocks have one tile
    if (share.tile >= Plan::tiles(layer.n)) return;
    float sums[Plan::kColumns / 2] = {};
#pragma unroll 1
    for (int step = share.first; step < share.last; ++step) products.add(sums, step);
    finish_together(ring, layer, sums, {}, Plan::place(share.tile), thread / 32 * 16 + thread % 32 / 4, thread);
  } else {
    using Stored = typename Layer::template Stored<Plan>;
    // The steps in which a tile's outputs are stored; none, where there is so little to multiply that all are stored at once, behind the products.
    constexpr int kParts = Stored::kParts, kStoring = kAllChunks > kParts ? smaller(kParts, Plan::kSteps) : 0;
    Stored stored(layer, ring.stages, thread / 32);
#pragma unroll 1
    for (; share.tile < Plan::tiles(layer.n); share.advance()) {
      const Place place = Plan::place(share.tile);
      float sums[Plan::kColumns / 2] = {};
      if constexpr (kStoring == 0) stored.begin(place);
#pragma unroll
      for (int step = 0; step < kStoring; ++step) {
        products.add(sums, step, [&] {
          store_parts<kStoring>(stored, step);
          if (step == kStoring - 1) stored.begin(place);  // where outputs that were stored had registers
        });
      }
#pragma unroll 1
      for (int step = kStoring; step < Plan::kSteps; ++step) products.add(sums, step);
      stored.take(sums);
      if constexpr (kStoring == 0) store_parts(stored);
    }
    if constexpr (kStoring > 0) store_parts(stored);
  }
}
