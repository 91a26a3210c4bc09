// conv5x5_bias, step 4: a tile of outputs in registers: four neighbours in a row, for up to ten filters.
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, H - 4, W - 4]; no activation.
//
// A weight is now loaded once for four multiply-adds and a pixel once for up to ten filters: a row of taps takes 17 loads of
// up to 16 bytes for 200 multiply-adds, so now arithmetic is the limit. This is the portable variant of the kernel, ../kernel.cu;
// conv5x5/quad.cuh and conv5x5/by_ffma.cuh explain the tile.
//
// Grid: min(ceil(n * (H - 4) * ceil((W - 4) / 4) / 128), 1056) * ceil(K / 10) blocks of 128.
#include "conv5x5/by_ffma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kRow>;
ASSERT_LAUNCH(conv5x5_bias_step04, kFfmaThreads, 0);

extern "C" __global__ void __launch_bounds__(kFfmaThreads)
    conv5x5_bias_step04(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  conv5x5_by_ffma<Shape, Activation::kNone>(x, w, bias, n, y);
}
