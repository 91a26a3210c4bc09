// Bulk copies of sm_90 between device and shared memory, and the barriers in shared memory that wait for their bytes.
//
// Addresses in shared memory are numbers (shared_address).
#pragma once

#include "common.cuh"

// Makes a barrier for this number of arrivals. One thread calls it.
__device__ __forceinline__ void init_barrier(unsigned barrier, unsigned arrivals = 1) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Lets the barrier's phase end when `bytes` bytes have arrived.
__device__ __forceinline__ void expect_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives, and publishes to those who wait what this thread did before.
__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Begins to copy `bytes` bytes, a multiple of 16, into shared memory; they count on the barrier.
__device__ __forceinline__ void begin_bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

// Waits for the phase of this parity: 0 for the first.
__device__ __forceinline__ void wait_for_bytes(unsigned barrier, unsigned parity = 0) {
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "AGAIN:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra AGAIN;\n\t"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
