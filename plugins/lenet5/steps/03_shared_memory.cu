// Step 3 of 4: the inputs in shared memory, and weights read in their order in memory.
//
//   conv1_relu_pool_shared -> conv2_relu_pool_shared -> linear_relu_shared -> linear_relu_shared -> linear_shared: five launches
//
// A block copies its image (or channels) and filters to shared memory once, with neighbouring threads on neighbouring addresses;
// then a convolution reads each pixel up to 25 times from shared memory instead of the cache of global memory.
// A linear layer is a matrix that is read once: a warp computes a row, its lanes read neighbouring columns (one 128-byte line per load
// instead of 32 lines), and five shuffles add up the 32 partial sums.
//
// Launches: one block an image, block 256; static shared memory.
#include "common.cuh"
#include "lenet5/lenet5.cuh"

using T = TYPE_T;
using namespace lenet5;

constexpr int kThreads = LAUNCH_THREADS;

__device__ __forceinline__ void copy_to_shared(const T* source, float* target, int count) {
  for (int i = threadIdx.x; i < count; i += kThreads) target[i] = to_float(source[i]);
}

// y [kOut, kSidePool, kSidePool] of one image from x [kIn, kSide, kSide]; a thread makes pool outputs kThreads apart.
template <int kIn, int kSide, int kOut>
__device__ __forceinline__ void conv_relu_pool(const float* x, const float* weight, const T* bias, T* y) {
  constexpr int kSidePool = (kSide - kFilterSide + 1) / kPool;
  for (int index = threadIdx.x; index < kOut * kSidePool * kSidePool; index += kThreads) {
    const int col = index % kSidePool, row = index / kSidePool % kSidePool, out = index / (kSidePool * kSidePool);
    const float start = to_float(bias[out]);
    float sum[kPool][kPool] = {{start, start}, {start, start}};
    for (int in = 0; in < kIn; ++in) {
      const float* window = x + (in * kSide + kPool * row) * kSide + kPool * col;
      for (int tap = 0; tap < kFilterTaps; ++tap) {
        const float w = weight[(out * kIn + in) * kFilterTaps + tap];
        const float* first = window + tap / kFilterSide * kSide + tap % kFilterSide;
        sum[0][0] = fmaf(first[0], w, sum[0][0]);
        sum[0][1] = fmaf(first[1], w, sum[0][1]);
        sum[1][0] = fmaf(first[kSide], w, sum[1][0]);
        sum[1][1] = fmaf(first[kSide + 1], w, sum[1][1]);
      }
    }
    y[index] = from_float<T>(relu_nan(max_nan(max_nan(sum[0][0], sum[0][1]), max_nan(sum[1][0], sum[1][1]))));
  }
}

// x [n, 1, 28, 28] -> y [n, 6, 12, 12].
extern "C" __global__ void __launch_bounds__(kThreads)
    conv1_relu_pool_shared(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias, int n,
                           T* __restrict__ y) {
  __shared__ float image[kImagePixels], filters[kConv1Channels * kFilterTaps];
  if (static_cast<int>(blockIdx.x) >= n) return;
  copy_to_shared(x + blockIdx.x * kImagePixels, image, kImagePixels);
  copy_to_shared(weight, filters, kConv1Channels * kFilterTaps);
  __syncthreads();
  conv_relu_pool<1, kImageSide, kConv1Channels>(image, filters, bias, y + blockIdx.x * kConv1Channels * kPool1Pixels);
}

// x [n, 6, 12, 12] -> y [n, 16, 4, 4].
extern "C" __global__ void __launch_bounds__(kThreads)
    conv2_relu_pool_shared(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias, int n,
                           T* __restrict__ y) {
  __shared__ float channels[kConv1Channels * kPool1Pixels], filters[kConv2Channels * kConv2Taps];
  if (static_cast<int>(blockIdx.x) >= n) return;
  copy_to_shared(x + blockIdx.x * kConv1Channels * kPool1Pixels, channels, kConv1Channels * kPool1Pixels);
  copy_to_shared(weight, filters, kConv2Channels * kConv2Taps);
  __syncthreads();
  conv_relu_pool<kConv1Channels, kPool1Side, kConv2Channels>(channels, filters, bias, y + blockIdx.x * kFeatures);
}

// y [n, outputs] = x [n, inputs] times weight [outputs, inputs] transposed, plus bias; at most 256 inputs.
template <bool kRelu>
__device__ __forceinline__ void linear_block(const T* x, const T* weight, const T* bias, int n, int inputs, int outputs, T* y) {
  __shared__ float vector[kFeatures];
  if (static_cast<int>(blockIdx.x) >= n) return;
  copy_to_shared(x + blockIdx.x * inputs, vector, inputs);
  __syncthreads();
  const int lane = threadIdx.x % 32;
  for (int row = threadIdx.x / 32; row < outputs; row += kThreads / 32) {
    float sum = 0.0f;
    for (int k = lane; k < inputs; k += 32) sum = fmaf(vector[k], to_float(weight[row * inputs + k]), sum);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    sum += to_float(bias[row]);
    if (lane == 0) y[blockIdx.x * outputs + row] = from_float<T>(kRelu ? relu_nan(sum) : sum);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    linear_relu_shared(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias, int n, int inputs,
                       int outputs, T* __restrict__ y) {
  linear_block<true>(x, weight, bias, n, inputs, outputs, y);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    linear_shared(const T* __restrict__ x, const T* __restrict__ weight, const T* __restrict__ bias, int n, int inputs,
                  int outputs, T* __restrict__ y) {
  linear_block<false>(x, weight, bias, n, inputs, outputs, y);
}
