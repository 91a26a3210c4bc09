// conv3x3_half by wgmma, line by line: y = act(conv(x, w) + bias), 3x3 filters, in fp16 and bfloat16.
//
// x [n, H, W, C], filters (w, packed: channels_last/layer.cuh), bias [K], y [n, H, W, K]; padding 1, C <= 128, K <= 32.
//
// Mapping: channels_last/by_lines.cuh. Bytes: x once, the filters once for each block, from L2; y once.
// What is known of it: docs/kernels/conv3x3_half.md.
#include "channels_last/by_lines.cuh"

ASSERT_LAUNCH(conv3x3_half_lines_wgmma, kLineThreads, Line::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kLineThreads, 1)
    conv3x3_half_lines_wgmma(const T* __restrict__ x, const T* __restrict__ filters, const T* __restrict__ bias, int n, T* __restrict__ y
                                 MAP_PARAMETERS) {
  wait_for_previous_kernel();
  extern __shared__ __align__(kSwizzleAlign) unsigned char shared[];
  channels_last_by_lines<false>(shared, {x, nullptr, filters, bias, n, y MAP_ARGUMENTS});
}
