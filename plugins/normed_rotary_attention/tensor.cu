// normed_rotary_attention on tensor cores: y = softmax(scale q k^T + mask) v, for each head, of queries and keys that are normalised
// and turned before.
//
// x [n, b, t, R + 2, g, D], cos and sin [t, D], mask [b, 1 or R g, 1 or t, t], query_scale and key_scale [D] -> y [n, b, t, R, g, D].
// Mapping and bytes: attention/by_tensor_cores.cuh. Rows, and how they are changed: one_tensor.cuh.
constexpr int kMostKeys = 64;  // at a time
#include "attention/by_tensor_cores.cuh"
#include "normed_rotary_attention/one_tensor.cuh"

ASSERT_LAUNCH_WHERE(normed_rotary_attention_tensor, LAUNCH_THREADS % 32 == 0, Tile<BlockTeam<LAUNCH_THREADS>>::kSharedBytes);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, Tile<BlockTeam<LAUNCH_THREADS>>::kBlocks)
    normed_rotary_attention_tensor(const T* __restrict__ x, const T* __restrict__ cos, const T* __restrict__ sin, const T* __restrict__ mask,
                                   const T* __restrict__ query_scale, const T* __restrict__ key_scale, int t, int groups, int masks,
                                   int mask_heads, int mask_rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  const NormedRows rows(pitch_of_tokens(groups), cos, sin, query_scale, key_scale);
  attention_by_tensor_cores<LAUNCH_THREADS, NormedHeads>(shared, {x, rows, {mask, masks, mask_heads, mask_rows, t}, t, groups, y});
}
