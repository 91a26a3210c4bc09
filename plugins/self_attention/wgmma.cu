// self_attention by wgmma, in fp16 and bfloat16: y = softmax(scale q k^T) v, for each head of each window.
//
// x [n, a, r, b, C, 3, H, D] -> y [n, a, r, b, C, H, D]. Mapping and bytes: attention/by_wgmma.cuh. Rows: one_tensor.cuh.
#include "attention/by_wgmma.cuh"
#include "self_attention/one_tensor.cuh"

ASSERT_LAUNCH_WHERE(self_attention_wgmma, LAUNCH_THREADS % 128 == 0, KeyPlan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, 1)
    self_attention_wgmma(const T* __restrict__ x, int images, int a, int r, int b, int heads, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  attention_by_wgmma<OneTensor<Unmasked>>(shared, {x, {}, a, r, b, heads, y}, images);
}
