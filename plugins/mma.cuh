// The tensor-core products that kernels here use: d += a b with a 16x16, b 16x8 (fp16 or bfloat16) and float sums, and half of that.
//
// Lane (g = lane / 4, t = lane % 4) holds a0 = A[g][2t, 2t+1], a1 = A[g+8][2t, 2t+1], a2 = A[g][2t+8, 2t+9],
// a3 = A[g+8][2t+8, 2t+9], b0 = B[2t, 2t+1][g], b1 = B[2t+8, 2t+9][g], d0, d1 = D[g][2t, 2t+1], d2, d3 = D[g+8][2t, 2t+1].
// The order of K is free as long as A and B have the same order; kernels here choose an order in which operands load in wide pieces.
#pragma once

#include "common.cuh"

// a 16x8, b 8x8: a0, a1 and b0 of the above.
template <typename Operand>
__device__ __forceinline__ void mma_16x8x8(float (&d)[4], unsigned a0, unsigned a1, unsigned b0);

template <>
__device__ __forceinline__ void mma_16x8x8<__half>(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

template <typename Operand>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                            unsigned b1);

// Two 16x8x8 products before sm_80.
template <>
__device__ __forceinline__ void mma_16x8x16<__half>(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                                    unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  mma_16x8x8<__half>(d, a0, a1, b0);
  mma_16x8x8<__half>(d, a2, a3, b1);
#endif
}

#if __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ void mma_16x8x8<__nv_bfloat16>(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

template <>
__device__ __forceinline__ void mma_16x8x16<__nv_bfloat16>(float (&d)[4], unsigned a0, unsigned a1, unsigned a2,
                                                           unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// a 16x8, b 8x8 of tf32, of which the lower 13 bits are ignored: a0 = A[g][t], a1 = A[g+8][t], a2 = A[g][t+4], a3 = A[g+8][t+4],
// b0 = B[t][g], b1 = B[t+4][g].
__device__ __forceinline__ void mma_16x8x8_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Transposes an 8x8 matrix of 16-bit elements, of which lane (g = lane / 4, t = lane % 4) has [g][2t, 2t+1].
__device__ __forceinline__ unsigned transpose_8x8(unsigned elements) {
  unsigned result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(elements));
  return result;
}
