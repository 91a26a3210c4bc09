// How the large-batch variants of `lenet5` fetch: an image by a warp, weights by the block; and instructions of theirs alone.
#pragma once

#include "bulk.cuh"
#include "copies.cuh"
#include "lenet5/lenet5.cuh"
#include "mma.cuh"
#include "prefetch.cuh"

namespace lenet5 {

constexpr int kLanes = 32;
constexpr int kUnitBytes = 16;
constexpr int kUnitHalves = 8;

// A thread's warp, as a number that the compiler knows to be the same in all lanes: what follows from it takes uniform registers.
__device__ __forceinline__ int warp_of(int thread) { return __shfl_sync(kAllLanes, thread / kLanes, 0); }

// ---- instructions ------------------------------------------------------------------------------------------------------

// The way back from shared_address. Addresses in shared memory are computed as 32-bit numbers and become pointers where they are
// used: NVRTC's pointers into shared memory have 64 bits (nvcc's 32), which takes two registers each and a conversion for every index.
template <typename T>
__device__ __forceinline__ T* at(unsigned address) {
  return static_cast<T*>(__cvta_shared_to_generic(address));
}

// d = a b + c.
__device__ __forceinline__ void mma16_first(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                            unsigned b1, const float4& c) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c.x), "f"(c.y), "f"(c.z), "f"(c.w));
}

// kTotal bytes, by the whole block, kBytes a thread and step; both sides aligned to kBytes.
template <int kBytes, int kTotal, int kThreads>
__device__ __forceinline__ void copy_block(unsigned char* shared, const void* global, int thread) {
  static_assert(kTotal % kBytes == 0, "whole pieces");
#pragma unroll
  for (int begin = 0; begin < kTotal; begin += kThreads * kBytes) {
    const int i = begin + thread * kBytes;
    if (i < kTotal) copy_async<kBytes>(shared_address(shared + i), static_cast<const unsigned char*>(global) + i);
  }
}

__device__ __forceinline__ unsigned bits(__half2 value) { return *reinterpret_cast<unsigned*>(&value); }

// ReLU of the largest: floats that are not negative order like integers, and all others end as zero. A NaN must be positive to
// get through; mma gives 0x7fffffff. Two instructions from sm_90 on.
__device__ __forceinline__ float relu_max4(float a, float b, float c, float d) {
  const int most = max(max(__float_as_int(a), __float_as_int(b)), __float_as_int(c));
  return __int_as_float(max(max(most, __float_as_int(d)), 0));
}

__device__ __forceinline__ float max4(float a, float b, float c, float d) { return max_nan(max_nan(a, b), max_nan(c, d)); }

// ---- an image as a warp fetches it -------------------------------------------------------------------------------------
// 28 lanes take four pixels each, four rows a step, seven steps.

constexpr int kQuad = 4;
constexpr int kQuadsARow = kImageSide / kQuad;             // 7
constexpr int kRowsAStep = 4;
constexpr int kFetchLanes = kQuadsARow * kRowsAStep;       // 28
constexpr int kFetchSteps = kImageSide / kRowsAStep;       // 7
constexpr int kFetchPixels = kFetchLanes * kQuad;          // 112, of one step

// The copies into a warp's buffer, one under way at a time. From sm_90 on a bulk copy, which costs one instruction and writes
// shared memory in whole lines, where cp.async writes every 32 bytes by themselves.
template <typename TX>
struct ImageFetch {
  TX* buffer;
  unsigned barrier, parity;

  // `barrier_storage`: eight bytes of the warp's own. All lanes call all three.
  __device__ __forceinline__ void init(TX* target, void* barrier_storage, int lane) {
    buffer = target;
    barrier = shared_address(barrier_storage);
    parity = 0;
#if __CUDA_ARCH__ >= 900
    if (lane == 0) init_barrier(barrier);
    __syncwarp();
#endif
  }

  // What the warp wrote to the buffer before is given up.
  __device__ __forceinline__ void start(const TX* image, int lane) {
#if __CUDA_ARCH__ >= 900
    constexpr int kBytes = kImagePixels * static_cast<int>(sizeof(TX));
    publish_to_units();
    __syncwarp();
    if (lane == 0) {
      // Not by the functions of bulk.cuh: with the size as a constant, the kernels are as they were measured.
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(kBytes) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       shared_address(buffer)),
                   "l"(image), "n"(kBytes), "r"(barrier)
                   : "memory");
    }
#else
    if (lane < kFetchLanes) {
#pragma unroll
      for (int step = 0; step < kFetchSteps; ++step) {
        const int pixel = step * kFetchPixels + lane * kQuad;
        copy_async<kQuad * static_cast<int>(sizeof(TX))>(shared_address(buffer + pixel), image + pixel);
      }
    }
    copy_async_commit();
#endif
  }

  __device__ __forceinline__ void wait() {
#if __CUDA_ARCH__ >= 900
    wait_for_bytes(barrier, parity);
    parity ^= 1;
#else
    copy_async_wait<0>();
    __syncwarp();
#endif
  }
};

// Brings an image into L2: a lane a line of 128 bytes.
template <typename TX>
__device__ __forceinline__ void prefetch_image(const TX* image, int lane) {
  constexpr int kLine = 128 / static_cast<int>(sizeof(TX));
  if (lane * kLine < kImagePixels) prefetch_l2(image + lane * kLine);
}

__device__ __forceinline__ float4 load_quad(const float* source) { return *reinterpret_cast<const float4*>(source); }
__device__ __forceinline__ float4 load_quad(const __half* source) {
  const uint2 raw = *reinterpret_cast<const uint2*>(source);
  const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&raw.x));
  const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&raw.y));
  return make_float4(a.x, a.y, b.x, b.y);
}

}  // namespace lenet5
