// attention by plain multiply-adds, for GPUs before sm_80: y = softmax(scale q k^T) v, for each head.
//
// q [N, m, H, D], k and v [N, t, H, D] -> y [N, m, H, D].
//
// Mapping: a warp a row, which reads all keys and values of its head once (layer.cuh). Bytes: k and v once for each row, from L2; q and y once.
#include "attention/layer.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(attention_rows, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    attention_rows(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, int n, int m, int t, int heads,
                   T* __restrict__ y) {
  wait_for_previous_kernel();
  attention_by_rows<Arguments<Unmasked>>({q, k, v, {}, m, t, heads, y}, n, kThreads);
}
