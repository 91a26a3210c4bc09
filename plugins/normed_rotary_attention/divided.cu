// normed_rotary_attention on tensor cores, for few rows: the warps of a block divide the keys of 16 queries.
//
// x [n, b, t, R + 2, g, D], cos and sin [t, D], mask [b, 1 or R g, 1 or t, t], query_scale and key_scale [D] -> y [n, b, t, R, g, D].
// Mapping and bytes: attention/divided_keys.cuh. Rows, and how they are changed: one_tensor.cuh; each warp changes its keys, and the queries.
constexpr int kMostKeys = 32;  // of a warp at a time
#include "attention/divided_keys.cuh"
#include "normed_rotary_attention/one_tensor.cuh"

ASSERT_LAUNCH(normed_rotary_attention_divided, LAUNCH_THREADS, kDividedBytes<LAUNCH_THREADS>);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, 1)
    normed_rotary_attention_divided(const T* __restrict__ x, const T* __restrict__ cos, const T* __restrict__ sin, const T* __restrict__ mask,
                                    const T* __restrict__ query_scale, const T* __restrict__ key_scale, int t, int groups, int masks,
                                    int mask_heads, int mask_rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  const NormedRows rows(pitch_of_tokens(groups), cos, sin, query_scale, key_scale);
  attention_by_divided_keys<LAUNCH_THREADS, NormedHeads>(shared, {x, rows, {mask, masks, mask_heads, mask_rows, t}, t, groups, y});
}
