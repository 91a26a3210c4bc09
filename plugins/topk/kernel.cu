// topk: the K largest elements of each row in falling order, and their indices; of equal elements the one that comes first.
//
// x [rows, N] -> values [rows, K], indices [rows, K] int32.
//
// Mapping: a block a row, in one pass over it. The largest elements of the threads give a bound that most elements miss (pick.cuh); those
// that do not go to a pool in shared memory, which a radix selection cuts down where it is too full (pool.cuh). What remains is ranked.
//
// Bytes: x once.
// What was measured: docs/kernels/topk.md.
#include "topk/pick.cuh"

namespace topk {

constexpr int kRankLanes = 2;  // that rank a key

struct OneBlock {
  Shared<1>& shared;

  __device__ __forceinline__ void wait() const {}
  __device__ __forceinline__ void tell(int place, unsigned element) const { shared.told[place] = element; }
  __device__ __forceinline__ void hear() const { __syncthreads(); }
};

__device__ __forceinline__ void of_block(const T* __restrict__ x, T* __restrict__ values, int* __restrict__ indices) {
  __shared__ Shared<1> shared;
  pick(shared, OneBlock{shared}, x, blockIdx.x, 0);
  const size_t start = static_cast<size_t>(blockIdx.x) * kTop;
  const Pool& pool = shared.pool;
  write_ranked<kRankLanes>(pool, values + start, indices + start,
                           [&](Key mine, int lane) { return larger_keys(pool.key, pool.count, mine, lane, kRankLanes); });
}

}  // namespace topk

using topk::T;
ASSERT_LAUNCH(topk_block, topk::kThreads, 0);

extern "C" __global__ void __launch_bounds__(topk::kThreads)
    topk_block(const T* __restrict__ x, int rows, T* __restrict__ values, int* __restrict__ indices) {
  wait_for_previous_kernel();
  topk::of_block(x, values, indices);
}
