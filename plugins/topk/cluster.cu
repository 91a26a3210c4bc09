// topk (see kernel.cu) with a thread block cluster a row, for few long rows on sm_90 and newer.
//
// x [rows, N] -> values [rows, K], indices [rows, K] int32.
//
// Mapping: 8 or 4 blocks share a row. Together they find a bound that the K largest keys reach; each picks the keys of its part
// that reach it, and writes them into the shared memory of the first block, which picks again and ranks.
// Bytes: x once.
#include "block_cluster.cuh"
#include "topk/pool.cuh"

namespace topk {

template <int kBlocks>
__device__ __forceinline__ void of_cluster(const T* __restrict__ x, T* __restrict__ values, int* __restrict__ indices) {
  __shared__ Pool pool;
  __shared__ Key bounds[kBlocks];
  __shared__ Key gathered[kBlocks * kSlots];
  const unsigned rank = blockIdx.x % kBlocks;
  const size_t row = blockIdx.x / kBlocks;
  cluster_arrive_relaxed();
  pick<kBlocks * kThreads, ceil_div(kTop, kBlocks)>(pool, x, row, rank * kThreads + threadIdx.x, [&](Key bound) {
    cluster_wait();
    if (threadIdx.x < kBlocks) write_remote(&bounds[rank], threadIdx.x, bound);
    cluster_arrive();
    cluster_wait();
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) bound = min(bound, bounds[i]);
    return bound;
  });
  const int slot = threadIdx.x;
  if (slot < kSlots) write_remote(&gathered[rank * kSlots + slot], 0, slot < pool.count ? pool.key[slot] : 0);
  cluster_arrive();
  cluster_wait();
  if (rank != 0) return;

  pool.keep<kBlocks * kSlots>(gathered, kBlocks * kSlots, pool.threshold(gathered, kBlocks * kSlots, kTop, kSlots));
  pool.write(values + row * kTop, indices + row * kTop);
}

}  // namespace topk

using topk::T;
ASSERT_LAUNCH(topk_cluster, topk::kThreads, 0);
ASSERT_LAUNCH(topk_cluster4, topk::kThreads, 0);

extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(topk::kThreads)
    topk_cluster(const T* __restrict__ x, int rows, T* __restrict__ values, int* __restrict__ indices) {
  wait_for_previous_kernel();
  topk::of_cluster<8>(x, values, indices);
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(topk::kThreads)
    topk_cluster4(const T* __restrict__ x, int rows, T* __restrict__ values, int* __restrict__ indices) {
  wait_for_previous_kernel();
  topk::of_cluster<4>(x, values, indices);
}
