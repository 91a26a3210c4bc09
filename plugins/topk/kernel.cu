// topk: the K largest elements of each row in falling order, and their indices; of equal elements the one that comes first.
//
// x [rows, N] -> values [rows, K], indices [rows, K] int32.
//
// Mapping: a block a row, in one pass over it. The largest keys of the threads give a bound that most elements miss; those
// that do not go to a pool in shared memory, which a radix selection cuts down (pool.cuh). What remains is ranked.
//
// Bytes: x once.
// What was measured: docs/kernels/topk.md.
#include "topk/pool.cuh"

using topk::T;
ASSERT_LAUNCH(topk_block, topk::kThreads, 0);

extern "C" __global__ void __launch_bounds__(topk::kThreads)
    topk_block(const T* __restrict__ x, int rows, T* __restrict__ values, int* __restrict__ indices) {
  wait_for_previous_kernel();
  using namespace topk;
  __shared__ Pool pool;
  pick<kThreads, kTop>(pool, x, blockIdx.x, threadIdx.x, [](Key bound) { return bound; });
  const size_t start = static_cast<size_t>(blockIdx.x) * kTop;
  pool.write(values + start, indices + start);
}
