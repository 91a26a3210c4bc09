// masked_attention on tensor cores: y = softmax(scale q k^T + mask) v, for each head.
//
// q [N, m, H, D], k and v [N, t, H, D], mask [outer, 1, inner, 1 or H, 1 or m, t] -> y [N, m, H, D], N = outer * repeat * inner.
// Mapping: attention/by_tensor_cores.cuh. Bytes: as there, and the mask once for each head and query, from L2 where it is repeated.
constexpr int kMostKeys = 64;  // at a time
#include "attention/by_tensor_cores.cuh"

ASSERT_LAUNCH_WHERE(masked_attention_tensor, LAUNCH_THREADS % 32 == 0, Tile<BlockTeam<LAUNCH_THREADS>>::kSharedBytes);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, Tile<BlockTeam<LAUNCH_THREADS>>::kBlocks)
    masked_attention_tensor(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, const T* __restrict__ mask, int m,
                            int t, int heads, int repeat, int inner, int mask_heads, int mask_rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  attention_by_tensor_cores<LAUNCH_THREADS, Arguments<Mask>>(shared,
                                                  {q, k, v, {mask, repeat, inner, mask_heads, mask_rows, t}, m, t, heads, y});
}
