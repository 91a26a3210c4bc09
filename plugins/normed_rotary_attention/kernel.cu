// normed_rotary_attention by plain multiply-adds, for GPUs before sm_80: y = softmax(scale q k^T + mask) v, for each head, of queries and keys that
// are normalised and turned before.
//
// x [n, b, t, R + 2, g, D], cos and sin [t, D], mask [b, 1 or R g, 1 or t, t], query_scale and key_scale [D] -> y [n, b, t, R, g, D].
//
// Mapping: a warp a row, which reads, normalises and turns all keys of its head once (attention/layer.cuh). Bytes: k and v once for each row, from L2; q and y
// once.
constexpr int kMostKeys = 64;  // of a tile (tile.cuh), which these rows are not in
#include "normed_rotary_attention/one_tensor.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(normed_rotary_attention_rows, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    normed_rotary_attention_rows(const T* __restrict__ x, const T* __restrict__ cos, const T* __restrict__ sin, const T* __restrict__ mask,
                                 const T* __restrict__ query_scale, const T* __restrict__ key_scale, int sequences, int t, int groups,
                                 int masks, int mask_heads, int mask_rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  const NormedRows rows(pitch_of_tokens(groups), cos, sin, query_scale, key_scale);
  attention_by_rows<NormedHeads>({x, rows, {mask, masks, mask_heads, mask_rows, t}, t, groups, y}, sequences, kThreads);
}
