// conv7x7_pool3_half by wgmma, Hopper's own instruction for its tensor cores: y = MaxPool(act(Conv(x, w) + bias)), in fp16 and bfloat16.
//
// x [n, C, H, W], filters (w, packed: layer.cuh), bias [K], y [n, PH, PW, K].
//
// Mapping: by_wgmma.cuh. Bytes: x once for each 64 filters, but 8 rows twice wherever a block begins within an image; y once.
// What is known of it: docs/kernels/conv7x7_pool3_half.md.
#include "conv7x7_pool3_half/by_wgmma.cuh"

ASSERT_LAUNCH(conv7x7_pool3_half_wgmma, kWgmmaThreads, Strip::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kWgmmaThreads, 1)
    conv7x7_pool3_half_wgmma(const X* __restrict__ x, const T* __restrict__ filters, const T* __restrict__ bias, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  pooled_by_wgmma(shared, {x, filters, bias, n, y});
}
