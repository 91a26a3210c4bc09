// rotary_attention on tensor cores: y = softmax(scale q k^T + mask) v, for each head, of queries and keys that are turned before.
//
// x [n, b, t, R + 2, g, D], cos and sin [t, D], mask [b, 1 or R g, 1 or t, t] -> y [n, b, t, R, g, D].
// Mapping and bytes: attention/by_tensor_cores.cuh. Rows, and how they are turned: one_tensor.cuh.
constexpr int kMostKeys = 64;  // at a time
#include "attention/by_tensor_cores.cuh"
#include "rotary_attention/one_tensor.cuh"

ASSERT_LAUNCH_WHERE(rotary_attention_tensor, LAUNCH_THREADS % 32 == 0, Tile<BlockTeam<LAUNCH_THREADS>>::kSharedBytes);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, Tile<BlockTeam<LAUNCH_THREADS>>::kBlocks)
    rotary_attention_tensor(const T* __restrict__ x, const T* __restrict__ cos, const T* __restrict__ sin,
                            const T* __restrict__ mask, int t, int groups, int masks, int mask_heads, int mask_rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  attention_by_tensor_cores<LAUNCH_THREADS, RotatedHeads>(shared, {x, {pitch_of_tokens(groups), cos, sin}, {mask, masks, mask_heads, mask_rows, t}, t, groups, y});
}
