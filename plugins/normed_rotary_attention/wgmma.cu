// normed_rotary_attention of long sequences, the second launch: y = softmax(scale q k^T + mask) v by wgmma, of queries and keys that are normalised and
// turned.
//
// The workspace (attention/arranged.cuh), mask [b, 1 or R g, 1 or t, t] -> y [n, b, t, R, g, D]. Mapping and bytes: attention/by_arranged_tiles.cuh.
#include "attention/by_arranged_tiles.cuh"
#include "rotary_attention/heads.cuh"

ASSERT_LAUNCH(normed_rotary_attention_wgmma, (kMultipliers + 1) * kRole, TilePlan::kSharedBytes);

extern "C" __global__ void __launch_bounds__((kMultipliers + 1) * kRole, 1)
    normed_rotary_attention_wgmma(const T* __restrict__ x, const T* __restrict__, const T* __restrict__, const T* __restrict__ mask,
                                  const T* __restrict__, const T* __restrict__, int sequences, int t, int groups, int masks, int mask_heads,
                                  int mask_rows, T* __restrict__ y, void* workspace) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  const HeadsOfOneTensor<EvenRows> layer = {x, EvenRows(pitch_of_tokens(groups)), {mask, masks, mask_heads, mask_rows, t}, t, groups, y};
  attention_by_arranged_tiles<kRepeats>(shared, layer, sequences, {workspace, sequences, layer.heads, groups, t, mask_tiles_of(layer.mask)});
}
