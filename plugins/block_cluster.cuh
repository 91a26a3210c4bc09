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
// Publishes what was written to any block's shared memory.
__device__ __forceinline__ void cluster_arrive() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
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

__device__ __forceinline__ void write_remote(float2* local, unsigned rank, float2 pair) {
  const unsigned remote = remote_address(shared_address(local), rank);
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(remote), "f"(pair.x), "f"(pair.y) : "memory");
}

__device__ __forceinline__ void write_remote(unsigned* local, unsigned rank, unsigned value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote_address(shared_address(local), rank)), "r"(value) : "memory");
}

__device__ __forceinline__ void write_remote(unsigned long long* local, unsigned rank, unsigned long long value) {
  asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(remote_address(shared_address(local), rank)), "l"(value) : "memory");
}

__device__ __forceinline__ float4 read_remote(const float* local, unsigned rank) {
  float4 four;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
               : "r"(remote_address(shared_address(local), rank))
               : "memory");
  return four;
}

// Sends floats (1, 2 or 4; aligned to their bytes) to the same place in the shared memory of block `rank`, and their bytes to the
// same barrier there (bulk.cuh): it needs no other barrier, and the sender waits for nothing. Addresses are numbers (shared_address).
template <int kCount>
__device__ __forceinline__ void send_remote(unsigned local, unsigned barrier, unsigned rank, const float (&v)[kCount]) {
  const unsigned to = remote_address(local, rank), counts = remote_address(barrier, rank);
  if constexpr (kCount == 4) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(counts)
                 : "memory");
  } else if constexpr (kCount == 2) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to), "f"(v[0]),
                 "f"(v[1]), "r"(counts)
                 : "memory");
  } else {
    static_assert(kCount == 1, "no store of this width");
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(v[0]), "r"(counts)
                 : "memory");
  }
}

// Waits for the phase of this parity, and for what other blocks have sent in it.
__device__ __forceinline__ void wait_for_remote(unsigned barrier, unsigned parity) {
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
