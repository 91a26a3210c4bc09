// rotary_attention of long sequences, the first launch: queries and keys are turned, and come with the values into tiles.
//
// x [n, b, t, R + 2, g, D], cos and sin [t, D], mask [b, 1 or R g, 1 or t, t] -> the workspace (attention/arranged.cuh).
// Mapping and bytes: attention/arrange.cuh. Rows, and how they are turned: one_tensor.cuh.
constexpr int kMostKeys = 64;  // of a tile (tile.cuh), which these rows are not in
#include "attention/arrange.cuh"
#include "rotary_attention/one_tensor.cuh"

constexpr int kThreads = 256;
ASSERT_LAUNCH(rotary_attention_arrange, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads, 5)
    rotary_attention_arrange(const T* __restrict__ x, const T* __restrict__ cos, const T* __restrict__ sin, const T* __restrict__ mask,
                             int sequences, int t, int groups, int masks, int mask_heads, int mask_rows, T* __restrict__ y, void* workspace) {
  wait_for_previous_kernel();
  const RotatedHeads layer = {x, {pitch_of_tokens(groups), cos, sin}, {mask, masks, mask_heads, mask_rows, t}, t, groups, y};
  arrange<kThreads, kRepeats>(layer, sequences, {workspace, sequences, layer.heads, groups, t, mask_tiles_of(layer.mask)});
}
