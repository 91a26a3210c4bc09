// Products of small matrices of 8 bits in registers, again and again: how many operations a second mma.sync does.
//
//   y[w] = ATTR_STEPS * (a[w] b[w]^T), as ATTR_STEPS sums
//
// a, b [warps, 32, 32] of T (int8 or float8 e4m3), y [warps, 32, 32] of S (int32 or float32). A warp holds its a (2 tiles of 16 rows)
// and b (4 tiles of 8 columns) in registers and has 8 sums that do not wait for each other. Operations: 2 * 32 * 32 * 32 * ATTR_STEPS
// a warp. int8 has tensor cores from sm_75 on, e4m3 from sm_89 on; before it the same is computed by multiply-adds (and not used as
// a ceiling). Hopper and Blackwell need wgmma and tcgen05 for their peaks, which mma.sync does not reach.
#include <cuda_fp8.h>

#include "mma_int8.cuh"

using T = TYPE_T;
using S = TYPE_S;

constexpr int kSide = 32, kDepth = 32, kRowTile = 16, kColumnTile = 8;
constexpr int kRowTiles = kSide / kRowTile, kColumnTiles = kSide / kColumnTile;
constexpr int kWarps = LAUNCH_THREADS / 32;

template <typename Number>
constexpr bool kIsInteger = false;
template <>
constexpr bool kIsInteger<signed char> = true;

#if __CUDA_ARCH__ >= 890
constexpr bool kTensorCores = true;
#else
constexpr bool kTensorCores = kIsInteger<T>;
#endif

__device__ __forceinline__ void multiply_add(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  int8::multiply_add(d, a[0], a[1], a[2], a[3], b[0], b[1]);
}
__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 890
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

__device__ __forceinline__ unsigned word_of(const T* matrix, int row, int column) {
  return *reinterpret_cast<const unsigned*>(matrix + row * kDepth + column);
}

__device__ __forceinline__ void by_tensor_cores(const T* left, const T* right, S* result, int lane) {
  const int g = lane / 4, t = lane % 4;
  unsigned a[kRowTiles][4], b[kColumnTiles][2];
#pragma unroll
  for (int i = 0; i < kRowTiles * 4; ++i) a[i / 4][i % 4] = word_of(left, i / 4 * kRowTile + g + i % 2 * 8, 4 * t + i % 4 / 2 * 16);
#pragma unroll
  for (int i = 0; i < kColumnTiles * 2; ++i) b[i / 2][i % 2] = word_of(right, i / 2 * kColumnTile + g, 4 * t + i % 2 * 16);
  S d[kRowTiles][kColumnTiles][4] = {};
#pragma unroll 4
  for (int step = 0; step < ATTR_STEPS; ++step) {
#pragma unroll
    for (int i = 0; i < kRowTiles * kColumnTiles; ++i) multiply_add(d[i / kColumnTiles][i % kColumnTiles], a[i / kColumnTiles], b[i % kColumnTiles]);
  }
#pragma unroll
  for (int i = 0; i < kRowTiles * kColumnTiles * 4; ++i) {
    const int tile = i / 4, row = tile / kColumnTiles * kRowTile + g + i % 4 / 2 * 8, column = tile % kColumnTiles * kColumnTile + 2 * t + i % 2;
    result[row * kSide + column] = d[tile / kColumnTiles][tile % kColumnTiles][i % 4];
  }
}

__device__ __forceinline__ void by_multiply_adds(const T* left, const T* right, S* result, int lane) {
  for (int row = 0; row < kSide; ++row) {
    S sum = 0;
    for (int step = 0; step < ATTR_STEPS; ++step) {
      for (int k = 0; k < kDepth; ++k) sum += static_cast<S>(left[row * kDepth + k]) * static_cast<S>(right[lane * kDepth + k]);
    }
    result[row * kSide + lane] = sum;
  }
}

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    ceiling_mma8(const T* __restrict__ a, const T* __restrict__ b, int warps, S* __restrict__ y) {
  const long long warp = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (warp >= warps) return;
  const T *left = a + warp * kSide * kDepth, *right = b + warp * kSide * kDepth;
  S* result = y + warp * kSide * kSide;
  if constexpr (kTensorCores) {
    by_tensor_cores(left, right, result, threadIdx.x % 32);
  } else {
    by_multiply_adds(left, right, result, threadIdx.x % 32);
  }
}
