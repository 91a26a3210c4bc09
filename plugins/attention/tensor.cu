// attention on tensor cores: y = softmax(scale q k^T) v, for each head.
//
// q [N, m, H, D], k and v [N, t, H, D] -> y [N, m, H, D]. Mapping and bytes: by_tensor_cores.cuh. What was measured: docs/kernels/attention.md.
constexpr int kMostKeys = 64;  // at a time
#include "attention/by_tensor_cores.cuh"

ASSERT_LAUNCH_WHERE(attention_tensor, LAUNCH_THREADS % 32 == 0, Tile<BlockTeam<LAUNCH_THREADS>>::kSharedBytes);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, Tile<BlockTeam<LAUNCH_THREADS>>::kBlocks)
    attention_tensor(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, int m, int t, int heads,
                     T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  attention_by_tensor_cores<LAUNCH_THREADS, Arguments<Unmasked>>(shared, {q, k, v, {}, m, t, heads, y});
}
