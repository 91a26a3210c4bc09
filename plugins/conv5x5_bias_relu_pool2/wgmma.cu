// conv5x5_bias_relu_pool2 at float accuracy on Hopper's tensor cores: y = maxpool2(relu(conv(x, w) + bias)), all float, one channel.
//
// x [n, 1, H, W], w [K, 1, 5, 5], bias [K], y [n, K, (H - 4) / 2, (W - 4) / 2]. The numbers are split and guarded as in split.cu; the
// products are wgmma's, which other architectures do not have: see conv5x5/by_wgmma.cuh. Bytes moved: x and y once.
//
// On an H200 (driver 580.159.04, CUDA 13.0 nvcc, median of 40 launches alternating with split.cu, 10000 images of 28x28, 50 filters):
// 135 us, split.cu 202 in the same run (`lenet-trt bench kernels`, which waits between launches, had 189 of it); 143 where the weights
// need the sums rescaled. 32 filters: 98 and 132 us, 64: 154 and 226. Error 8.9e-8 (split.cu 9.3e-8).
//
// Predicted: products at the tensor cores' whole rate, 62 us, and about 75 of shared memory and stores; 120 in all, not overlapping
// fully. What came out on the way, of the same shape:
//   172 us, the four outputs of a window as rows of their own, as in split.cu: 32 words of shared memory a lane for a quad
//   161 us, 16 words: the lower outputs as columns of B; without the stores 117, without the products 100 (not added up: they overlap)
//   155 us, three blocks a multiprocessor instead of four
//   144 us, four images a tile instead of two: 18 units leave a tenth of four warps idle
//   135 us, images dealt out evenly instead of tile by tile: 2500 tiles on 396 blocks make 7 rounds of 6.3
// The tensor cores are half busy in the second (ncu), the path of loads and stores 70%; most stalls are barriers.
// Slower, and dropped: two sums as in split.cu (178 instead of 172), five blocks with fewer registers (174 instead of 172), one image a
// tile (183 instead of 161), and y gathered in shared memory and written by bulk copies: a third less on the path of loads and
// stores, but 145 us with two images a tile, and 141 or 154 with two or four warpgroups sharing the filters, an image each.
#include "conv5x5/by_wgmma.cuh"

using Shape = Conv5x5Shape<AXIS_C, AXIS_H, AXIS_W, AXIS_K, Quad::kWindow>;
constexpr int kBlocks = 3;  // a multiprocessor

ASSERT_LAUNCH(conv5x5_bias_relu_pool2_wgmma, kWgmmaThreads, WgmmaPlan<Shape>::kSharedBytes);

extern "C" __global__ void __launch_bounds__(kWgmmaThreads, kBlocks)
    conv5x5_bias_relu_pool2_wgmma(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias, int n,
                                  float* __restrict__ y) {
  conv5x5_by_wgmma<Shape, Activation::kRelu>(x, w, bias, n, y);
}
