// topk (see kernel.cu) with a thread block cluster a row, for few long rows on sm_90 and newer.
//
// x [rows, N] -> values [rows, K], indices [rows, K] int32.
//
// Mapping: each of 8 blocks picks the K largest keys of its part of the row, and writes them into the shared memory of
// the first block, which picks again and ranks.
// Bytes: x once.
#include "topk/pool.cuh"

namespace topk {

constexpr int kBlocks = 8;

__device__ __forceinline__ void of_cluster(const T* __restrict__ x, T* __restrict__ values, int* __restrict__ indices) {
  __shared__ Pool pool;
  __shared__ Key gathered[kBlocks * kSlots];
  const unsigned rank = blockIdx.x % kBlocks;
  const size_t row = blockIdx.x / kBlocks;
  cluster_begin();
  pick<kBlocks * kThreads>(pool, x, row, rank * kThreads + threadIdx.x);
  cluster_wait();
  if (threadIdx.x < kSlots) {
    const int slot = threadIdx.x;
    write_remote(&gathered[rank * kSlots + slot], 0, slot < pool.count ? pool.key[slot] : 0);
  }
  cluster_arrive();
  cluster_wait();
  if (rank != 0) return;

  const Key least = pool.threshold(gathered, kBlocks * kSlots, kTop, kSlots);
  pool.clear();
#pragma unroll
  for (int i = 0; i < ceil_divide(kBlocks * kSlots, kThreads); ++i) {
    const int slot = threadIdx.x + i * kThreads;
    const Key each = slot < kBlocks * kSlots ? gathered[slot] : 0;
    pool.append(each >= least, each);
  }
  __syncthreads();
  pool.write(values + row * kTop, indices + row * kTop);
}

}  // namespace topk

using topk::T;
ASSERT_LAUNCH(topk_cluster, topk::kThreads, 0);

extern "C" __global__ void __cluster_dims__(topk::kBlocks, 1, 1) __launch_bounds__(topk::kThreads)
    topk_cluster(const T* __restrict__ x, int rows, T* __restrict__ values, int* __restrict__ indices) {
  topk::of_cluster(x, values, indices);
}
