// masked_self_attention on tensor cores, for few rows: the warps of a block divide the keys of 16 queries.
//
// x [n, a, r, b, C, 3, H, D], mask [1 or a b, 1 or H, 1 or r C, r C] -> y [n, a, r, b, C, H, D].
// Mapping and bytes: attention/divided_keys.cuh. Rows: one_tensor.cuh.
constexpr int kMostKeys = 32;  // of a warp at a time
#include "attention/divided_keys.cuh"
#include "self_attention/one_tensor.cuh"

ASSERT_LAUNCH(masked_self_attention_divided, LAUNCH_THREADS, kDividedBytes<LAUNCH_THREADS>);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, 1)
    masked_self_attention_divided(const T* __restrict__ x, const T* __restrict__ mask, int a, int r, int b, int heads, int mask_windows,
                                 int mask_heads, int mask_rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  attention_by_divided_keys<LAUNCH_THREADS, OneTensor<WindowMask>>(
      shared, {x, {mask, mask_windows, mask_heads, mask_rows, r * kColumns}, a, r, b, heads, y});
}
