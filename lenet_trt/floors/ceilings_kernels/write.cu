// All sums of two vectors: what it costs to write, with next to nothing to read.
//
//   y[i][j] = a[i] + b[j]
//
// a [rows], b [4 * LAUNCH_THREADS], y [rows, 4 * LAUNCH_THREADS], all float32. A thread holds four numbers of b and goes down
// the rows of its block, which are neighbours in groups of kUnroll; each store is 16 bytes.
// Bytes: 4 rows + 16 LAUNCH_THREADS read, 16 LAUNCH_THREADS rows written.
#include "common.cuh"

constexpr int kUnroll = 4;
constexpr bool kStreaming = ATTR_HINT == 1;

__device__ __forceinline__ void store(float4* address, float4 value) {
  if constexpr (kStreaming) {
    __stcs(address, value);
  } else {
    *address = value;
  }
}

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    ceiling_write(const float* __restrict__ a, const float* __restrict__ b, int rows, float* __restrict__ y) {
  const float4 mine = reinterpret_cast<const float4*>(b)[threadIdx.x];
  float4* to = reinterpret_cast<float4*>(y) + threadIdx.x;
  for (long long group = blockIdx.x; group * kUnroll < rows; group += gridDim.x) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const long long row = group * kUnroll + i;
      if (row < rows) {
        const float add = a[row];
        store(to + row * LAUNCH_THREADS, make_float4(mine.x + add, mine.y + add, mine.z + add, mine.w + add));
      }
    }
  }
}
