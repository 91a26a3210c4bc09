// What blocks of a cluster exchange, as PTX: values that count their bytes on the receiver's mbarrier.
#pragma once

#include "block_cluster.cuh"
#include "bulk.cuh"

namespace lenet5 {

// Makes a barrier and arms it for its first phase; the cluster's barrier publishes it, without a release, by the fence in init_barrier.
__device__ __forceinline__ void begin_barrier(unsigned barrier, unsigned bytes) {
  init_barrier(barrier);
  expect_bytes(barrier, bytes);
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

// A barrier of `threads` threads of the block, a multiple of 32; barrier 0 is __syncthreads.
template <int kBarrier>
__device__ __forceinline__ void block_wait(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "r"(threads) : "memory");
}

}  // namespace lenet5
