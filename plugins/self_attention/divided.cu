// self_attention on tensor cores, for few rows: the warps of a block divide the keys of 16 queries.
//
// x [n, a, r, b, C, 3, H, D] -> y [n, a, r, b, C, H, D]. Mapping and bytes: attention/divided_keys.cuh. Rows: one_tensor.cuh.
constexpr int kMostKeys = 32;  // of a warp at a time
#include "attention/divided_keys.cuh"
#include "self_attention/one_tensor.cuh"

ASSERT_LAUNCH(self_attention_divided, LAUNCH_THREADS, kDividedBytes<LAUNCH_THREADS>);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, 1)
    self_attention_divided(const T* __restrict__ x, int a, int r, int b, int heads, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  attention_by_divided_keys<LAUNCH_THREADS, OneTensor<Unmasked>>(shared, {x, {}, a, r, b, heads, y});
}
