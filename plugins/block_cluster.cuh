// A cluster of thread blocks (sm_90 and newer): its barrier, and the shared memory of its other blocks.
#pragma once

#include "common.cuh"

// Arrives without publishing anything, so that it waits for no load or store under way: to say that this block has begun (before
// all have, nobody may write to their shared memory), or has read what was there.
__device__ __forceinline__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
// Publishes what was written to any block's shared memory.
__device__ __forceinline__ void cluster_arrive() {
  __syncwarp();  // the lanes of a warp must arrive together
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

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
