// A copy: what it costs to read n numbers and write them elsewhere.
//
//   y[i] = x[i]
//
// x, y [n] float32. A block takes tiles of LAUNCH_THREADS * kUnroll neighbouring 16-byte pieces; a thread has kUnroll loads
// under way before it stores the first. Bytes: 4 n read, 4 n written.
#include "common.cuh"

constexpr int kUnroll = 4;
constexpr bool kStreaming = ATTR_HINT == 1;

__device__ __forceinline__ float4 load(const float4* address) { return kStreaming ? __ldcs(address) : *address; }

__device__ __forceinline__ void store(float4* address, float4 value) {
  if constexpr (kStreaming) {
    __stcs(address, value);
  } else {
    *address = value;
  }
}

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    ceiling_copy(const float* __restrict__ x, int n, float* __restrict__ y) {
  const float4* from = reinterpret_cast<const float4*>(x);
  float4* to = reinterpret_cast<float4*>(y);
  const int count = n / 4;
  constexpr int kTile = LAUNCH_THREADS * kUnroll;
  for (long long tile = blockIdx.x; tile * kTile < count; tile += gridDim.x) {
    const long long first = tile * kTile + threadIdx.x;
    if ((tile + 1) * kTile <= count) {
      float4 held[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) held[i] = load(from + first + i * LAUNCH_THREADS);
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) store(to + first + i * LAUNCH_THREADS, held[i]);
    } else {
      for (long long at = first; at < count; at += LAUNCH_THREADS) to[at] = from[at];
    }
  }
  if (blockIdx.x == 0 && threadIdx.x < n % 4) y[4 * count + threadIdx.x] = x[4 * count + threadIdx.x];
}
