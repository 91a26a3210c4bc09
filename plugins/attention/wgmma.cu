// attention by wgmma, in fp16 and bfloat16: y = softmax(scale q k^T) v, for each head.
//
// q [N, m, H, D], k and v [N, t, H, D] -> y [N, m, H, D]. Mapping and bytes: by_wgmma.cuh. What was measured: docs/kernels/attention.md.
#include "attention/by_wgmma.cuh"

ASSERT_LAUNCH_WHERE(attention_wgmma, LAUNCH_THREADS % 128 == 0, KeyPlan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, 1)
    attention_wgmma(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, int images, int m, int t, int heads,
                     T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  attention_by_wgmma<Arguments<Unmasked>>(shared, {q, k, v, {}, m, t, heads, y}, images);
}
