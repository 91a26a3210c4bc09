// self_attention by plain multiply-adds, for GPUs before sm_80: y = softmax(scale q k^T) v, for each head of each window.
//
// x [n, a, r, b, C, 3, H, D] -> y [n, a, r, b, C, H, D].
//
// Mapping: a warp a row, which reads all keys and values of its head once (attention/layer.cuh). Bytes: k and v once for each row, from L2; q and y
// once.
#include "self_attention/one_tensor.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(self_attention_rows, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    self_attention_rows(const T* __restrict__ x, int windows, int a, int r, int b, int heads, T* __restrict__ y) {
  wait_for_previous_kernel();
  attention_by_rows<OneTensor<Unmasked>>({x, {}, a, r, b, heads, y}, windows, kThreads);
}
