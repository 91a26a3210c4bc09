// topk (see kernel.cu) with a thread block cluster a row, for few long rows on sm_90 and newer.
//
// x [rows, N] -> values [rows, K], indices [rows, K] int32.
//
// Mapping: 8 or 4 blocks share a row. Their warps find a bound together; each block picks the keys of its part that reach it (pick.cuh),
// and sends them to all blocks. Then it ranks its own keys among all of them.
// Bytes: x once.
#include "block_cluster.cuh"
#include "bulk.cuh"
#include "topk/pick.cuh"

namespace topk {

template <int kBlocks>
struct SharedByCluster : Shared<kBlocks> {
  // By blocks; two keys more, so that lanes that read the same place of several lists read different banks.
  alignas(16) Key gathered[kBlocks][kMost + 2];
  unsigned counts[kBlocks];
  unsigned long long all_told, all_counted, all_gathered;  // barriers
};

template <int kBlocks>
struct BlocksOfCluster {
  SharedByCluster<kBlocks>& mine;

  __device__ __forceinline__ void begin() const {
    if (threadIdx.x == 0) {
      begin_barrier(shared_address(&mine.all_told), kBlocks * kWarps * Telling<kBlocks>::kOfWarp * sizeof(unsigned));
      begin_barrier(shared_address(&mine.all_counted), sizeof(mine.counts));
      init_barrier(shared_address(&mine.all_gathered));
    }
    cluster_arrive_relaxed();  // this block has barriers, which others may count on
  }
  __device__ __forceinline__ void wait() const { cluster_wait(); }
  __device__ __forceinline__ void tell(int place, unsigned element) const {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) send_remote(shared_address(&mine.told[place]), shared_address(&mine.all_told), block, element);
  }
  __device__ __forceinline__ void hear() const { wait_for_remote(shared_address(&mine.all_told)); }

  // Sends all blocks the keys that this one has picked, and waits for theirs.
  __device__ __forceinline__ void gather(int rank) const {
    const unsigned counted = shared_address(&mine.all_counted), gathered = shared_address(&mine.all_gathered);
    const unsigned count = mine.pool.count;
    if (threadIdx.x < kBlocks) send_remote(shared_address(&mine.counts[rank]), counted, threadIdx.x, count);
    for (unsigned i = threadIdx.x; i < count * kBlocks; i += kThreads) {
      send_remote(shared_address(&mine.gathered[rank][i / kBlocks]), gathered, i % kBlocks, mine.pool.key[i / kBlocks]);
    }
    wait_for_remote(counted);
    if (threadIdx.x == 0) {
      unsigned all = 0;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) all += mine.counts[block];
      expect_bytes(gathered, all * sizeof(Key));  // some may have come
    }
    wait_for_remote(gathered);
  }
};

template <int kBlocks>
__device__ __forceinline__ void of_cluster(SharedByCluster<kBlocks>& mine, const T* __restrict__ x, T* __restrict__ values,
                                           int* __restrict__ indices) {
  const int rank = blockIdx.x % kBlocks;
  const size_t row = blockIdx.x / kBlocks;
  const BlocksOfCluster<kBlocks> blocks{mine};
  blocks.begin();
  pick<kBlocks>(mine, blocks, x, row, rank);
  blocks.gather(rank);
  write_ranked<kBlocks>(mine.pool, values + row * kTop, indices + row * kTop, [&](Key key, int list) {
    return larger_keys(mine.gathered[list], mine.counts[list], key, 0, 1);
  });
}

}  // namespace topk

using topk::T;
ASSERT_LAUNCH(topk_cluster8, topk::kThreads, sizeof(topk::SharedByCluster<8>));
ASSERT_LAUNCH(topk_cluster4, topk::kThreads, sizeof(topk::SharedByCluster<4>));

extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(topk::kThreads)
    topk_cluster8(const T* __restrict__ x, int rows, T* __restrict__ values, int* __restrict__ indices) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  topk::of_cluster<8>(*reinterpret_cast<topk::SharedByCluster<8>*>(shared), x, values, indices);
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(topk::kThreads)
    topk_cluster4(const T* __restrict__ x, int rows, T* __restrict__ values, int* __restrict__ indices) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  topk::of_cluster<4>(*reinterpret_cast<topk::SharedByCluster<4>*>(shared), x, values, indices);
}
