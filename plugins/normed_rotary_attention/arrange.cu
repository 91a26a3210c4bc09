// normed_rotary_attention of long sequences, the first launch: queries and keys are normalised and turned, and come with the values into tiles.
//
// x [n, b, t, R + 2, g, D], cos and sin [t, D], mask [b, 1 or R g, 1 or t, t], query_scale and key_scale [D] -> the workspace (attention/arranged.cuh).
// Mapping and bytes: attention/arrange.cuh. Rows, and how they are changed: one_tensor.cuh.
constexpr int kMostKeys = 64;  // of a tile (tile.cuh), which these rows are not in
#include "attention/arrange.cuh"
#include "normed_rotary_attention/one_tensor.cuh"

constexpr int kThreads = 256;
ASSERT_LAUNCH(normed_rotary_attention_arrange, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads, 5)
    normed_rotary_attention_arrange(const T* __restrict__ x, const T* __restrict__ cos, const T* __restrict__ sin, const T* __restrict__ mask,
                                    const T* __restrict__ query_scale, const T* __restrict__ key_scale, int sequences, int t, int groups, int masks,
                                    int mask_heads, int mask_rows, T* __restrict__ y, void* workspace) {
  wait_for_previous_kernel();
  const NormedRows rows(pitch_of_tokens(groups), cos, sin, query_scale, key_scale);
  const NormedHeads layer = {x, rows, {mask, masks, mask_heads, mask_rows, t}, t, groups, y};
  arrange<kThreads, kRepeats>(layer, sequences, {workspace, sequences, layer.heads, groups, t, mask_tiles_of(layer.mask)});
}
