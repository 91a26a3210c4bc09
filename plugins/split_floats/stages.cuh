// A ring of stages in shared memory: some threads of a block fill them, one or two warpgroups read them and multiply.
//
// `Plan` says how many stages there are and how large one is (kStages, kStageBytes). Two barriers for each, `full` and `empty`, lie behind them.
#pragma once

#include "bulk.cuh"
#include "wgmma.cuh"

constexpr int kRole = 128;  // threads of a warpgroup
constexpr int kWgmmaThreads = 3 * kRole;
constexpr unsigned kMostShared = 227 * 1024;  // of a block of sm_90

// The number of this thread's warpgroup, in a register that all lanes share: what is computed with it are few instructions.
__device__ __forceinline__ int warpgroup() { return __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kRole, 0); }

// A warpgroup fills the stages. kReaders: the warps that read a stage. kFillers: who arrives when one is full, usually the threads that load, and the
// one that expects the bytes of bulk copies.
template <typename Plan, int kReaders = 2 * kRole / 32, int kFillers = kRole + 1>
struct Stages {
  unsigned char* stages;
  unsigned address;  // of the stages

  __device__ __forceinline__ explicit Stages(unsigned char* memory) : stages(memory), address(shared_address(memory)) {}
  __device__ __forceinline__ unsigned full(int stage) const { return address + Plan::kStages * Plan::kStageBytes + 16 * stage; }
  __device__ __forceinline__ unsigned empty(int stage) const { return full(stage) + 8; }

  // One thread makes the barriers.
  __device__ __forceinline__ void init() const {
#pragma unroll
    for (int stage = 0; stage < Plan::kStages; ++stage) {
      init_barrier(full(stage), kFillers);
      init_barrier(empty(stage), kReaders);
    }
  }
};

// A place in the ring, and how often the ring was passed.
template <typename Plan>
struct Turn {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage < Plan::kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

// Ends a group of products, and does `work` while they are under way: without the barrier the compiler would move it ahead of them.
template <typename Work>
__device__ __forceinline__ void do_meanwhile(const Work& work) {
  wgmma_commit();
  __syncwarp();
  work();
}

// Stores all parts of a tile's outputs, or those whose turn is step `step` of kSteps. Both loops can be unrolled without knowing the step: outputs in
// registers stay there.
template <typename Stored>
__device__ __forceinline__ void store_parts(const Stored& stored) {
#pragma unroll
  for (int part = 0; part < Stored::kParts; ++part) stored.store(part);
}
template <int kSteps, typename Stored>
__device__ __forceinline__ void store_parts(const Stored& stored, int step) {
#pragma unroll
  for (int part = 0; part < Stored::kParts; ++part) {
    if (part * kSteps / Stored::kParts == step) stored.store(part);
  }
}

// The roles of a block: its first warpgroup loads, the others multiply. The first keeps kLoadRegisters a thread, and the others take what it gives
// back. With 0, all keep the registers that they have. kGroups: warpgroups of the block, the only one of a multiprocessor.
template <int kLoadRegisters, int kGroups = 3, typename Load, typename Multiply>
__device__ __forceinline__ void in_roles(Load load, Multiply multiply) {
  constexpr int kRegisters = 65536 / (kGroups * kRole) / 8 * 8;  // of a thread, at the start
  if (threadIdx.x < kRole) {
    if constexpr (kLoadRegisters > 0) keep_registers<kLoadRegisters>();
    load();
  } else {
    if constexpr (kLoadRegisters > 0) take_registers<(kGroups * kRegisters - kLoadRegisters) / (kGroups - 1) / 8 * 8>();
    multiply();
  }
}
