// Bulk copies of sm_90 between device and shared memory, tensor copies (TMA), and the barriers in shared memory that wait for their bytes.
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

// Makes a barrier whose first phase ends with these bytes. One thread calls it. In a cluster, the cluster's barrier publishes it, without a release,
// by the fence in init_barrier.
__device__ __forceinline__ void begin_barrier(unsigned barrier, unsigned bytes) {
  init_barrier(barrier);
  expect_bytes(barrier, bytes);
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

// CUtensorMap of cuda.h: an array in device memory and the shape of a box, as the driver writes them. A kernel's parameter is a
// `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Begins to copy the box that begins at this row and column of an array of two axes; elements outside the array are zeros. All bytes of the box
// count on the barrier. `to` is a multiple of 8 rows of the box.
__device__ __forceinline__ void begin_tensor_copy(unsigned to, const TensorMap* map, int row, int column, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(map), "r"(column), "r"(row), "r"(barrier)
               : "memory");
}

// The same of an array of four axes: images, rows, columns, channels.
__device__ __forceinline__ void begin_tensor_copy(unsigned to, const TensorMap* map, int image, int row, int column, int channel,
                                                  unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(map), "r"(channel), "r"(column), "r"(row), "r"(image), "r"(barrier)
      : "memory");
}

// Where a tensor copy puts what an address of a box of such rows, dense, would have: units of 16 bytes change places within a row.
template <int kRowBytes>
__device__ __forceinline__ unsigned swizzled(unsigned address) {
  static_assert(kRowBytes == 32 || kRowBytes == 64 || kRowBytes == 128);
  return address ^ (address / 128 % (kRowBytes / 16) * 16);
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
