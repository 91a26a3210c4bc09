// Where queries, keys and values lie in shared memory for attention by wgmma (by_wgmma.cuh), and the warpgroup that brings them there.
#pragma once

#include "attention/layer.cuh"
#include "copies.cuh"
#include "split_floats/stages.cuh"

constexpr int kEight = 8, kKeys = 64;
constexpr int kMultipliers = LAUNCH_THREADS / kRole - 1, kRows = 64 * kMultipliers;  // warpgroups, and their queries
constexpr int kLoadRegisters = kMultipliers == 2 ? 40 : 32;                           // of a thread
static_assert(sizeof(T) == 2 && kDepth % 8 == 0 && kDepth > 16 && kDepth <= (kMultipliers == 4 ? 64 : 160));
// 8 rows of 8 numbers lie together, as products read them, and 16 bytes further the next 8 columns: lanes that copy a row have different banks.
constexpr unsigned kNextColumns = kEight * kEight * sizeof(T) + 16, kNextRows = kPadded / kEight * kNextColumns, kPart = kKeys / kEight * kNextRows;

// A ring of keys and values, of as many stages as fit, and behind it the queries of two parts, each with a barrier that says when they are not needed
// any more.
struct KeyPlan {
  static constexpr unsigned kStageBytes = 2 * kPart, kQueryBytes = kRows / kEight * kNextRows;  // keys and values
  static constexpr int kMostStages = 5, kBarrierBytes = 16 * (kMostStages + 1);
  static constexpr int kStages = smaller(kMostStages, (kMostShared - kBarrierBytes - 2 * kQueryBytes) / kStageBytes);
  static_assert(kStages >= 2);
  static constexpr unsigned kQueries = kStages * (kStageBytes + 16);
  static constexpr unsigned kFree = kQueries + 2 * kQueryBytes, kSharedBytes = kFree + 16;
};
constexpr int kReaders = 4 * kMultipliers;  // warps
struct KeyRing : Stages<KeyPlan, kReaders> {
  using Stages<KeyPlan, kReaders>::Stages;

  // The queries of the part `count` of a block, and the barrier behind them.
  __device__ __forceinline__ unsigned queries(int count) const { return address + KeyPlan::kQueries + count % 2 * KeyPlan::kQueryBytes; }
  __device__ __forceinline__ unsigned free(int count) const { return address + KeyPlan::kFree + count % 2 * 8; }
};

// Writes zeros behind the columns of all rows, up to a multiple of 16, where no copy writes.
__device__ __forceinline__ void clear_padding(unsigned char* shared) {
  if constexpr (kPadded > kDepth) {
    constexpr int kOfKeys = KeyPlan::kStages * 2 * kKeys / kEight, kBlocks = kOfKeys + 2 * kRows / kEight;  // of 8 rows
    for (int i = threadIdx.x; i < kBlocks * kEight; i += LAUNCH_THREADS) {
      const int block = i / kEight;
      unsigned char* const rows = shared + (block < kOfKeys ? block * kNextRows : KeyPlan::kQueries + (block - kOfKeys) * kNextRows);
      *reinterpret_cast<uint4*>(rows + kDepth / kEight * kNextColumns + i % kEight * 16) = make_uint4(0, 0, 0, 0);
    }
    publish_to_units();
  }
}

// Begins to copy rows of a head from `first` on, and zeros behind the last one, by all threads of the warpgroup that loads.
template <int kCount, typename Rows>
__device__ __forceinline__ void begin_rows(unsigned to, const Rows& rows, const T* head, int first, int end) {
  constexpr int kLanes = kDepth <= 32 ? 4 : kDepth <= 64 ? 8 : 16, kAtOnce = kRole / kLanes;  // lanes that copy a row
  static_assert(kAtOnce % kEight == 0 && kCount % kAtOnce == 0);
  const int mine = threadIdx.x / kLanes, eight = threadIdx.x % kLanes;
  if (eight * kEight >= kDepth) return;
  const auto from = rows.from(head, first + mine);
  to += mine / kEight * kNextRows + eight * kNextColumns + mine % kEight * 16;
#pragma unroll 4
  for (int i = 0; i < kCount; i += kAtOnce) {
    copy_async<16>(to + i / kEight * kNextRows, from.row(i) + eight * kEight, first + mine + i < end ? 16 : 0);
    if constexpr (kDepth > kLanes * kEight) {
      const bool inside = first + mine + i < end;
      if ((eight + kLanes) * kEight < kDepth) {
        copy_async<16>(to + i / kEight * kNextRows + kLanes * kNextColumns, from.row(i) + (eight + kLanes) * kEight, inside ? 16 : 0);
      }
    }
  }
}

// What the warpgroup that loads does.
template <typename Layer>
__device__ __forceinline__ void load_parts(const KeyRing& ring, const Layer& layer, int parts) {
  Turn<KeyPlan> turn;
  int count = 0;  // of parts so far
#pragma unroll 1
  for (int number = blockIdx.x; number < parts; number += gridDim.x, ++count) {
    const Part part(layer, number, kRows);
    const auto head = layer.head(part.image, part.head);
#pragma unroll 1
    for (int key = 0; key < layer.t; key += kKeys) {
      const unsigned stage = ring.address + turn.stage * KeyPlan::kStageBytes;
      wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
      if (key == 0) {
        wait_for_bytes(ring.free(count), count / 2 % 2 ^ 1);
        begin_rows<kRows>(ring.queries(count), head.rows, head.q, part.first_row, head.m);
      }
      begin_rows<kKeys>(stage, head.rows, head.k, key, head.t);
      begin_rows<kKeys>(stage + kPart, head.rows, head.v, key, head.t);
      if (threadIdx.x == 0) arrive(ring.full(turn.stage));
      arrive_with_copies(ring.full(turn.stage));
      turn.advance();
    }
  }
}
