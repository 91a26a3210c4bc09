// Step 4 of 4: the whole network in one launch, a block per image.
//
//   y [n, 10] = LeNet-5(x [n, 1, 28, 28])
//
// Between two layers there is a block barrier instead of a launch, and activations never leave shared memory: an image goes in
// (3 KB), ten numbers come out. The variants one folder up continue from this plain form by
//   * giving an image to a cluster of blocks, when there are fewer images than multiprocessors (cluster.cu),
//   * loading the linear layers' weights before the convolutions start, since these 164 KB take longest to arrive (portable.cu),
//   * keeping windows of the image in registers: here four products need five reads of shared memory, which are the limit,
//   * using tensor cores (tensor_core.cu).
//
// Launch: grid n, block 256, static shared memory. All tensors are of type T, arithmetic and activations are float.
#include "common.cuh"
#include "lenet5/lenet5.cuh"

using T = TYPE_T;
using namespace lenet5;

constexpr int kThreads = LAUNCH_THREADS;

__device__ __forceinline__ void copy_to_shared(const T* source, float* target, int count) {
  for (int i = threadIdx.x; i < count; i += kThreads) target[i] = to_float(source[i]);
}

// y [kOut, kSidePool, kSidePool] from x [kIn, kSide, kSide], both in shared memory.
template <int kIn, int kSide, int kOut>
__device__ __forceinline__ void conv_relu_pool(const float* x, const float* weight, const T* bias, float* y) {
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
    y[index] = relu_nan(max_nan(max_nan(sum[0][0], sum[0][1]), max_nan(sum[1][0], sum[1][1])));
  }
}

// The dot product of row `row` of weight [.., kIn] with x in shared memory, by one warp; every lane gets it.
template <int kIn>
__device__ __forceinline__ float warp_dot(const float* x, const T* weight, int row) {
  float sum = 0.0f;
  for (int k = threadIdx.x % 32; k < kIn; k += 32) sum = fmaf(x[k], to_float(weight[row * kIn + k]), sum);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return sum;
}

template <int kIn, int kOut>
__device__ __forceinline__ void linear_relu(const float* x, const T* weight, const T* bias, float* y) {
  for (int row = threadIdx.x / 32; row < kOut; row += kThreads / 32) {
    const float sum = warp_dot<kIn>(x, weight, row) + to_float(bias[row]);
    if (threadIdx.x % 32 == 0) y[row] = relu_nan(sum);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    lenet5_whole_network(const T* __restrict__ x, const T* __restrict__ conv1_weight, const T* __restrict__ conv1_bias,
                         const T* __restrict__ conv2_weight, const T* __restrict__ conv2_bias, const T* __restrict__ fc1_weight,
                         const T* __restrict__ fc1_bias, const T* __restrict__ fc2_weight, const T* __restrict__ fc2_bias,
                         const T* __restrict__ fc3_weight, const T* __restrict__ fc3_bias, int n, T* __restrict__ y) {
  __shared__ float image[kImagePixels], filters1[kConv1Channels * kFilterTaps], filters2[kConv2Channels * kConv2Taps];
  __shared__ float pool1[kConv1Channels * kPool1Pixels], features[kFeatures], hidden1[kFc1], hidden2[kFc2];
  if (static_cast<int>(blockIdx.x) >= n) return;

  copy_to_shared(x + blockIdx.x * kImagePixels, image, kImagePixels);
  copy_to_shared(conv1_weight, filters1, kConv1Channels * kFilterTaps);
  copy_to_shared(conv2_weight, filters2, kConv2Channels * kConv2Taps);
  __syncthreads();
  conv_relu_pool<1, kImageSide, kConv1Channels>(image, filters1, conv1_bias, pool1);
  __syncthreads();
  conv_relu_pool<kConv1Channels, kPool1Side, kConv2Channels>(pool1, filters2, conv2_bias, features);
  __syncthreads();
  linear_relu<kFeatures, kFc1>(features, fc1_weight, fc1_bias, hidden1);
  __syncthreads();
  linear_relu<kFc1, kFc2>(hidden1, fc2_weight, fc2_bias, hidden2);
  __syncthreads();
  for (int row = threadIdx.x / 32; row < kClasses; row += kThreads / 32) {
    const float sum = warp_dot<kFc2>(hidden2, fc3_weight, row) + to_float(fc3_bias[row]);
    if (threadIdx.x % 32 == 0) y[blockIdx.x * kClasses + row] = from_float<T>(sum);
  }
}
