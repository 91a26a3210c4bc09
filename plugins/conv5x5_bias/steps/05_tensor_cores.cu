// conv5x5_bias, step 5: tensor cores at float accuracy, each operand split into two fp16 halves. TYPE_T is float.
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, H - 4, W - 4]; no activation.
//
// Step 4 needs 25 multiply-adds per output, and a multiprocessor does 128 of them per cycle. Three tensor-core products of halves
// replace them (conv5x5/by_mma.cuh); then writing y is the limit. This step is the same as ../split.cu.
//
// Grid: min(ceil(n / images), 528) blocks of 96; images and the dynamic shared memory as for conv5x5_bias_split.
#include "conv5x5/by_mma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kRow>;
using Plan = MmaPlan<Shape, T, true>;
ASSERT_LAUNCH(conv5x5_bias_step05, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kMmaThreads)
    conv5x5_bias_step05(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  conv5x5_by_mma<Plan, Activation::kNone>(x, w, bias, n, y);
}
