// masked_self_attention of long sequences, the first launch: queries, keys and values come into tiles.
//
// x [n, a, r, b, C, 3, H, D], mask [1 or a b, 1 or H, 1 or r C, r C] -> the workspace (attention/arranged.cuh).
// Mapping and bytes: attention/arrange.cuh. Rows: self_attention/one_tensor.cuh.
constexpr int kMostKeys = 64;  // of a tile (tile.cuh), which these rows are not in
#include "attention/arrange.cuh"
#include "self_attention/one_tensor.cuh"

constexpr int kThreads = 256;
ASSERT_LAUNCH(masked_self_attention_arrange, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads, 5)
    masked_self_attention_arrange(const T* __restrict__ x, const T* __restrict__ mask, int windows, int a, int r, int b, int heads, int mask_windows,
                                  int mask_heads, int mask_rows, T* __restrict__ y, void* workspace) {
  wait_for_previous_kernel();
  const OneTensor<WindowMask> layer = {x, {mask, mask_windows, mask_heads, mask_rows, r * kColumns}, a, r, b, heads, y};
  arrange<kThreads, 1>(layer, windows, {workspace, windows, heads, heads, layer.t, mask_tiles_of(layer.mask)});
}
