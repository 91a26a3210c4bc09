// Instructions of kernels of int8: tensor-core products, saturated multiply-add, shared memory by 32-bit addresses.
//
// Lane (g = lane / 4, t = lane % 4) holds four bytes a register: a0 = A[g][4t ..], a1 = A[g + 8][4t ..], a2 = A[g][16 + 4t ..],
// a3 = A[g + 8][16 + 4t ..], b0 = B[4t ..][g], b1 = B[16 + 4t ..][g], d0, d1 = D[g][2t, 2t + 1], d2, d3 = D[g + 8][2t, 2t + 1].
// tests/helpers/cuda_on_cpu has the same functions for a CPU, so that the kernels run there.
#pragma once

#include "common.cuh"

namespace int8 {

// ---- products ------------------------------------------------------------------------------------------------------------

// Sums start at this number: as floats they are 12582912 + sum, exactly, while |sum| < 2^22 (fc1's largest is 256 * 127 * 128).
constexpr int kMagicBits = 0x4b400000;
constexpr float kMagic = 12582912.0f;

// The start of four sums. The compiler may not know that they are equal, or it would copy one before every product.
__device__ __forceinline__ int4 first_sums() {
  int4 start;
  asm volatile("mov.s32 %0, %4; mov.s32 %1, %4; mov.s32 %2, %4; mov.s32 %3, %4;"
               : "=r"(start.x), "=r"(start.y), "=r"(start.z), "=r"(start.w)
               : "n"(kMagicBits));
  return start;
}

// d = a b + c with a 16x32, b 32x8; before sm_80 four products of 8x16 and 16x8.
__device__ __forceinline__ void multiply(int (&d)[4], const int4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                         unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c.x), "r"(c.y), "r"(c.z), "r"(c.w));
#else
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
      : "=r"(d[0]), "=r"(d[1]) : "r"(a0), "r"(b0), "r"(c.x), "r"(c.y));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
      : "=r"(d[2]), "=r"(d[3]) : "r"(a1), "r"(b0), "r"(c.z), "r"(c.w));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a2), "r"(b1));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[2]), "+r"(d[3]) : "r"(a3), "r"(b1));
#endif
}

// d += a b.
__device__ __forceinline__ void multiply_add(int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  multiply(d, make_int4(d[0], d[1], d[2], d[3]), a0, a1, a2, a3, b0, b1);
#endif
}

// d += a b with a 16x16, b 16x8.
__device__ __forceinline__ void multiply_add(int (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
#else
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a0), "r"(b0));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[2]), "+r"(d[3]) : "r"(a1), "r"(b0));
#endif
}

// a b + c, then at least 0 and at most 1, without another instruction.
__device__ __forceinline__ float saturated_fma(float a, float b, float c) {
  float d;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}

// ---- shared memory as 32-bit addresses, with offsets that are constants ---------------------------------------------------

__device__ __forceinline__ unsigned load_word(unsigned address) {
  unsigned v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
__device__ __forceinline__ void store_word(unsigned address, unsigned v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
__device__ __forceinline__ void store_two(unsigned address, unsigned v) {
  asm volatile("{ .reg .b16 low; cvt.u16.u32 low, %1; st.shared.u16 [%0], low; }" ::"r"(address), "r"(v) : "memory");
}
__device__ __forceinline__ void store_byte(unsigned address, unsigned v) {
  asm volatile("{ .reg .b16 low; cvt.u16.u32 low, %1; st.shared.u8 [%0], low; }" ::"r"(address), "r"(v) : "memory");
}

}  // namespace int8
