// Bulk copies of sm_90 between device and shared memory: a barrier in shared memory that waits for bytes.
#pragma once

#include "common.cuh"

#if __CUDA_ARCH__ >= 900

// Makes a barrier whose phase 0 ends when `bytes` bytes, a multiple of 16, have arrived. One thread calls it.
__device__ __forceinline__ void expect_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copy engine must see the barrier initialised
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait_for_copy(unsigned barrier) {
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "AGAIN:\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n\t"
      "@!done bra AGAIN;\n\t"
      "}" ::"r"(barrier)
      : "memory");
}

#endif
