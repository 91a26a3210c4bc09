// Instructions that batched_matmul uses: 16-byte asynchronous copies to shared memory, and 8x8 matrices of 16-bit elements.
//
// Where an architecture lacks an instruction, ordinary ones do the same.
#pragma once

#include "common.cuh"

// Begins to copy 16 bytes; of these, the last 16 - `bytes` become zero and are not read. Both addresses are multiples of 16.
__device__ __forceinline__ void begin_copy16(void* to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)),
               "r"(bytes)
               : "memory");
#else
  if (bytes == 16) {
    *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      static_cast<unsigned short*>(to)[i] = 2 * i < bytes ? static_cast<const unsigned short*>(from)[i] : 0;
    }
  }
#endif
}

// Waits for the copies that this thread began; a barrier makes them visible to other threads.
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Loads two or four 8x8 matrices: lane 8 i + r says where row r of matrix i begins (a multiple of 16 bytes). Then lane (g = lane / 4,
// t = lane % 4) holds [g][2t, 2t+1] of each, or, transposed, [2t, 2t+1][g].
template <int kCount, bool kTransposed>
__device__ __forceinline__ void load_8x8(unsigned (&registers)[kCount], const void* row) {
  static_assert(kCount == 2 || kCount == 4, "ldmatrix loads as many");
  const unsigned address = shared_address(row);
  unsigned* r = registers;
  if constexpr (kCount == 4 && kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  } else if constexpr (kCount == 4) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  } else if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
  }
}

// Transposes an 8x8 matrix that the lanes of a warp hold as above.
__device__ __forceinline__ unsigned transpose_8x8(unsigned elements) {
  unsigned result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(elements));
  return result;
}
