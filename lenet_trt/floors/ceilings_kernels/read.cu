// The largest of n integers: what it costs to read them all, once.
//
//   y[0] = max(y[0], x[0], ..., x[n - 1])
//
// x [n] int32, y [1] int32, which the caller sets to the smallest integer beforehand. A block takes tiles of
// LAUNCH_THREADS * kUnroll neighbouring 16-byte pieces, a thread keeps kUnroll loads under way. A maximum rather than a
// sum: it is one instruction a number, needs no order, and gives the same answer however often it is repeated.
// Bytes: 4 n read; at most one atomic a warp.
#include "common.cuh"

constexpr int kUnroll = 8;
constexpr int kLanes = 32;
constexpr bool kStreaming = ATTR_HINT == 1;

__device__ __forceinline__ int4 load(const int4* address) { return kStreaming ? __ldcs(address) : *address; }

__device__ __forceinline__ int largest(int4 v) { return max(max(v.x, v.y), max(v.z, v.w)); }

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    ceiling_read(const int* __restrict__ x, int n, int* __restrict__ y) {
  const int4* pieces = reinterpret_cast<const int4*>(x);
  const int count = n / 4;
  constexpr int kTile = LAUNCH_THREADS * kUnroll;
  int best = 0x80000000;
  for (long long tile = blockIdx.x; tile * kTile < count; tile += gridDim.x) {
    const long long first = tile * kTile + threadIdx.x;
    if ((tile + 1) * kTile <= count) {
      int4 held[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) held[i] = load(pieces + first + i * LAUNCH_THREADS);
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) best = max(best, largest(held[i]));
    } else {
      for (long long at = first; at < count; at += LAUNCH_THREADS) best = max(best, largest(pieces[at]));
    }
  }
  if (blockIdx.x == 0 && threadIdx.x < n % 4) best = max(best, x[4 * count + threadIdx.x]);
  for (int offset = kLanes / 2; offset > 0; offset /= 2) best = max(best, __shfl_xor_sync(0xffffffffu, best, offset));
  // Most warps find nothing larger than what is there, and so many atomics on one address would take longer than reading x.
  if (threadIdx.x % kLanes == 0 && best > __ldcg(y)) atomicMax(y, best);
}
