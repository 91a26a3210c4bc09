// masked_attention by plain multiply-adds, for GPUs before sm_80: y = softmax(scale q k^T + mask) v, for each head.
//
// q [N, m, H, D], k and v [N, t, H, D], mask [outer, 1, inner, 1 or H, 1 or m, t] -> y [N, m, H, D], N = outer * repeat * inner.
//
// Mapping: a warp a row, which reads all keys and values of its head once (attention/layer.cuh). Bytes: k, v and a row of the mask once for
// each row, from L2; q and y once.
#include "attention/layer.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(masked_attention_rows, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    masked_attention_rows(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, const T* __restrict__ mask, int n,
                          int m, int t, int heads, int repeat, int inner, int mask_heads, int mask_rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  attention_by_rows<Arguments<Mask>>({q, k, v, {mask, repeat, inner, mask_heads, mask_rows, t}, m, t, heads, y}, n, kThreads);
}
