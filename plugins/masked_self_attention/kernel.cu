// masked_self_attention by plain multiply-adds, for GPUs before sm_80: y = softmax(scale q k^T + mask) v, for each head of each window.
//
// x [n, a, r, b, C, 3, H, D], mask [1 or a b, 1 or H, 1 or r C, r C] -> y [n, a, r, b, C, H, D].
//
// Mapping: a warp a row, which reads all keys and values of its head once (attention/layer.cuh). Bytes: k and v once for each row, from L2; q and y
// once.
#include "self_attention/one_tensor.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(masked_self_attention_rows, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    masked_self_attention_rows(const T* __restrict__ x, const T* __restrict__ mask, int windows, int a, int r, int b, int heads,
                               int mask_windows, int mask_heads, int mask_rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  attention_by_rows<OneTensor<WindowMask>>({x, {mask, mask_windows, mask_heads, mask_rows, r * kColumns}, a, r, b, heads, y}, windows, kThreads);
}
