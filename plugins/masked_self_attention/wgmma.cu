// masked_self_attention of long sequences, the second launch: y = softmax(scale q k^T + mask) v by wgmma.
//
// The workspace (attention/arranged.cuh), mask [1 or a b, 1 or H, 1 or r C, r C] -> y [n, a, r, b, C, H, D]. Mapping and bytes:
// attention/by_arranged_tiles.cuh.
#include "attention/by_arranged_tiles.cuh"
#include "self_attention/one_tensor.cuh"

ASSERT_LAUNCH(masked_self_attention_wgmma, (kMultipliers + 1) * kRole, TilePlan::kSharedBytes);

extern "C" __global__ void __launch_bounds__((kMultipliers + 1) * kRole, 1)
    masked_self_attention_wgmma(const T* __restrict__ x, const T* __restrict__ mask, int windows, int a, int r, int b, int heads, int mask_windows,
                                int mask_heads, int mask_rows, T* __restrict__ y, void* workspace) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  const OneTensor<WindowMask> layer = {x, {mask, mask_windows, mask_heads, mask_rows, r * kColumns}, a, r, b, heads, y};
  attention_by_arranged_tiles<1>(shared, layer, windows, {workspace, windows, heads, heads, layer.t, mask_tiles_of(layer.mask)});
}
