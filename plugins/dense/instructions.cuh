// Instructions of dense/staged.cuh, of sm_80 and newer: asynchronous copies, ldmatrix, products of 16 rows and 8 columns.
//
// tests/helpers/cuda_on_cpu has the same functions for a CPU, so that the kernels run there.
#pragma once

#include "mma.cuh"

namespace dense {

template <typename T>
struct Sum {
  using Type = float;
};
template <>
struct Sum<signed char> {
  using Type = int;
};

// Copies kBytes to shared memory, or writes zeros there.
template <int kBytes>
__device__ __forceinline__ void copy_or_clear(unsigned to, const void* from, bool exists) {
  const size_t address = __cvta_generic_to_global(from);
  const int bytes = exists ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(address), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(address), "n"(kBytes), "r"(bytes) : "memory");
  }
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the last kGroups groups of this thread's copies have arrived.
template <int kGroups>
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// Four matrices of 8 rows of 16 bytes: lane i gives the address of row i % 8 of matrix i / 8, and gets word i % 4 of row i / 4 of each.
__device__ __forceinline__ void load_matrices(unsigned (&word)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"(address));
}

// d += a b for 32 bytes of a row of each operand, in the lanes as mma.cuh and mma_int8.cuh have them; floats are cut to tf32.
template <typename T>
__device__ __forceinline__ void multiply(typename Sum<T>::Type (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  mma_16x8x16<T>(d, a[0], a[1], a[2], a[3], b[0], b[1]);
}
template <>
__device__ __forceinline__ void multiply<float>(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ __forceinline__ void multiply<signed char>(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace dense
