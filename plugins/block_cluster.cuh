// A cluster of thread blocks (sm_90 and newer): its barrier, and the shared memory of its other blocks.
#pragma once

#include "common.cuh"

// The lanes of a warp must come to each part of the barrier together, which code that was divergent before does not promise.

// Arrives without publishing anything, so that it waits for no load or store under way: to say that this block has begun (before
// all have, nobody may write to their shared memory), or has read what was there.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
// Publishes what was written to this block's own shared memory, and nothing else. What goes to another block is sent (below).
__device__ __forceinline__ void cluster_arrive() {
  __syncwarp();
  asm volatile("fence.release.sync_restrict::shared::cta.cluster;\n\tbarrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() {
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The same place in the shared memory of block `rank`.
__device__ __forceinline__ unsigned remote_address(unsigned local, unsigned rank) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
  return remote;
}

__device__ __forceinline__ float4 read_remote(const float* local, unsigned rank) {
  float4 four;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
               : "r"(remote_address(shared_address(local), rank))
               : "memory");
  return four;
}

// Sends 4, 8 or 16 bytes, aligned to themselves, to the same place in the shared memory of block `rank`, and their number to the same barrier there
// (bulk.cuh): it needs no other barrier, and the sender waits for nothing. Addresses are numbers (shared_address).
template <typename Value>
__device__ __forceinline__ void send_remote(unsigned local, unsigned barrier, unsigned rank, const Value& value) {
  const unsigned to = remote_address(local, rank), counts = remote_address(barrier, rank);
  const unsigned* words = reinterpret_cast<const unsigned*>(&value);
  if constexpr (sizeof(Value) == 16) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(counts)
                 : "memory");
  } else if constexpr (sizeof(Value) == 8) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, [%3];" ::"r"(to), "r"(words[0]),
                 "r"(words[1]), "r"(counts)
                 : "memory");
  } else {
    static_assert(sizeof(Value) == 4, "no store of this width");
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(to), "r"(words[0]), "r"(counts)
                 : "memory");
  }
}

// Waits for the phase of this parity, 0 for the first, and for what other blocks have sent in it. It throws away the L1 cache; a fence of shared memory
// alone would keep it, and wait for all loads that are under way.
__device__ __forceinline__ void wait_for_remote(unsigned barrier, unsigned parity = 0) {
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "AGAIN:\n\t"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra AGAIN;\n\t"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
