// Asynchronous copies from global to shared memory by threads (cp.async), and 8x8 matrices of 16-bit elements from there (ldmatrix).
//
// Addresses in shared memory are numbers (shared_address). An architecture before sm_80 has no such copies, and waits for none.
#pragma once

#include "common.cuh"

// Begins to copy kBytes bytes: 4, 8 or 16, and both addresses are multiples of them.
// A generic address of global memory is its global one. Whether it is converted decides how the compiler orders other instructions
// (NVVM 13.0): both functions are as their kernels were measured.
template <int kBytes>
__device__ __forceinline__ void copy_async(unsigned to, const void* from) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes) : "memory");
  }
#endif
}

// The same of the first `bytes` of them; the others are not read, and become zero.
template <int kBytes>
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  const size_t address = __cvta_generic_to_global(from);
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(address), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(address), "n"(kBytes), "r"(bytes) : "memory");
  }
#endif
}

// Ends a group of this thread's copies.
__device__ __forceinline__ void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most kPending of this thread's groups are under way; a barrier makes what arrived visible to other threads.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// Waits for all copies that this thread began, in groups or not.
__device__ __forceinline__ void copy_async_wait_all() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Arrives at a barrier in shared memory (bulk.cuh) when all copies that this thread began have; the barrier counts it.
__device__ __forceinline__ void arrive_with_copies(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Loads four 8x8 matrices: lane 8 i + r says where row r of matrix i begins, a multiple of 16 bytes. Then lane (g = lane / 4,
// t = lane % 4) holds [g][2t, 2t+1] of each, or, transposed, [2t, 2t+1][g].
template <bool kTransposed = false>
__device__ __forceinline__ void load_matrices(unsigned (&m)[4], unsigned row) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(row)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(row)
                 : "memory");
  }
}

// The reverse: stores four 8x8 matrices of which a lane holds what load_matrices says.
template <bool kTransposed = false>
__device__ __forceinline__ void store_matrices(unsigned row, const unsigned (&m)[4]) {
  if constexpr (kTransposed) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
                 : "memory");
  }
}

// Two; lanes 0 to 15 say where.
__device__ __forceinline__ void load_matrices(unsigned (&m)[2], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(m[0]), "=r"(m[1]) : "r"(row) : "memory");
}
