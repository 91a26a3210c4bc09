// What blocks of a cluster exchange, as PTX: cluster barriers, and values that count their bytes on the receiver's mbarrier.
#pragma once

#include "common.cuh"

namespace lenet5 {

__device__ __forceinline__ unsigned remote_address(unsigned local, unsigned rank) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
  return remote;
}

// Arms a barrier for its next phase, which completes once `bytes` bytes have arrived.
__device__ __forceinline__ void expect_more_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// The same for the first phase; the cluster barrier below publishes it.
__device__ __forceinline__ void expect_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  expect_more_bytes(barrier, bytes);
}

// Waits for the phase of this parity: 0 for the first.
// The fence orders shared memory alone: an acquire of the whole cluster would also throw away the L1 cache.
__device__ __forceinline__ void wait_bytes(unsigned barrier, unsigned parity = 0) {
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "again:\n\t"
      "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra again;\n\t"
      "fence.acquire.sync_restrict::shared::cluster.cluster;\n\t"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void push(unsigned remote, float value, unsigned remote_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(remote),
               "r"(__float_as_uint(value)), "r"(remote_barrier)
               : "memory");
}

__device__ __forceinline__ void push4(unsigned remote, float4 value, unsigned remote_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(remote),
               "r"(__float_as_uint(value.x)), "r"(__float_as_uint(value.y)), "r"(__float_as_uint(value.z)),
               "r"(__float_as_uint(value.w)), "r"(remote_barrier)
               : "memory");
}

// Relaxed: the fence in expect_bytes is all that it has to publish, and a release would wait for the loads in flight.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// A barrier of `threads` threads of the block, a multiple of 32; barrier 0 is __syncthreads.
template <int kBarrier>
__device__ __forceinline__ void block_wait(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "r"(threads) : "memory");
}

// The same, which tells all of them whether one of them says so.
template <int kBarrier>
__device__ __forceinline__ bool block_any(int threads, bool mine) {
  unsigned any;
  asm volatile(
      "{\n\t"
      ".reg .pred one, all;\n\t"
      "setp.ne.u32 one, %3, 0;\n\t"
      "bar.red.or.pred all, %1, %2, one;\n\t"
      "selp.u32 %0, 1, 0, all;\n\t"
      "}"
      : "=r"(any)
      : "n"(kBarrier), "r"(threads), "r"(static_cast<unsigned>(mine))
      : "memory");
  return any != 0;
}

}  // namespace lenet5
