// masked_attention by wgmma, in fp16 and bfloat16: y = softmax(scale q k^T + mask) v, for each head.
//
// q [N, m, H, D], k and v [N, t, H, D], mask [outer, 1, inner, 1 or H, 1 or m, t] -> y [N, m, H, D], N = outer * repeat * inner.
// Mapping: attention/by_wgmma.cuh. Bytes: as there, and the mask once for each head and query, from L2 where it is repeated.
#include "attention/by_wgmma.cuh"

ASSERT_LAUNCH_WHERE(masked_attention_wgmma, LAUNCH_THREADS % 128 == 0, KeyPlan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, 1)
    masked_attention_wgmma(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, const T* __restrict__ mask, int images, int m,
                            int t, int heads, int repeat, int inner, int mask_heads, int mask_rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  attention_by_wgmma<Arguments<Mask>>(shared,
                                                  {q, k, v, {mask, repeat, inner, mask_heads, mask_rows, t}, m, t, heads, y}, images);
}
