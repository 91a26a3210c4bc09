// conv5x5_bias at float accuracy on tensor cores: y = act(conv(x, w) + bias); act is nothing, ReLU or tanh. T is float.
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, H - 4, W - 4]. Each operand is split into two fp16 halves after scaling, three
// products replace one; numbers that cannot be split send their images to plain multiply-adds. See conv5x5/mma_parts.cuh
// for the split and its guard, conv5x5/by_mma.cuh for the thread mapping.
//
// Bytes moved: x and y once. For 10000 images of 28x28 and 50 filters y is 1.15 GB, so writing it is the limit.
// On an H200 (driver 580, CUDA 13.0, median of 20 launches, 10000 images of 28x28, 50 filters, float): 317 us
// against 271 us for the same stores alone and 1746 us for cuDNN; predicted 285. 331 us before x was fetched into L2 in large
// batches and y marked streaming. Neither leaving out the products, nor more blocks, nor staging rows for the bulk copy
// engine (373 us) was faster.
// Nor was wgmma on the same GPU (predicted 281; medians of 40 launches alternating with this kernel, which took 324 there): 324 at
// best, sums gathered in shared memory and stored by 16 bytes; 329 to 345 stored from registers, 337 of one without any product;
// 383 and more by bulk copies of rows padded against bank conflicts; without the padding, so aligned to 128 bytes, 408 and more.
// In that run y alone took 253 by cudaMemset, 266 to 270 by 16-byte stores, 269 to 274 by bulk copies of aligned rows. DRAM is 76%
// busy in this kernel, the path of loads and stores 61%, tensor cores 33% (ncu): none of them alone is the limit.
#include "conv5x5/by_mma.cuh"

using T = TYPE_T;
using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kRow>;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
using Plan = MmaPlan<Shape, T, true>;
ASSERT_LAUNCH(conv5x5_bias_split, Plan::kThreads, Plan::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kMmaThreads)
    conv5x5_bias_split(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                       T* __restrict__ y) {
  conv5x5_by_mma<Plan, kActivation>(x, w, bias, n, y);
}
