// Barriers: of what blocks of a cluster send each other (block_cluster.cuh), and of some threads of a block.
#pragma once

#include "block_cluster.cuh"
#include "bulk.cuh"

namespace lenet5 {

// Waits for the phase of this parity, 0 for the first, as wait_for_remote does, where no load is under way: the fence keeps the L1 cache.
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

// A barrier of `threads` threads of the block, a multiple of 32; barrier 0 is __syncthreads.
template <int kBarrier>
__device__ __forceinline__ void block_wait(int threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "r"(threads) : "memory");
}

}  // namespace lenet5
