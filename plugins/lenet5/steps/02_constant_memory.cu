// Step 2 of 4: the convolutions' weights in constant memory, and the pool done by the thread that has its four inputs.
//
//   conv1_relu_pool_constant -> conv2_relu_pool_constant, then linear_relu, linear_relu, linear of step 1: five launches
//
// Constant memory has its own cache, which gives one word to all 32 lanes of a warp at once and leaves the other caches to the images.
// It is fast only when all lanes need the same word: here a warp never mixes output channels (conv1: 144 pool outputs per channel,
// rounded up to 160 threads; conv2: 16, so half of each warp is idle). It has 64 KB: both convolutions fit, fc1 (120 KB in fp32) does not.
// The four windows under one pool output overlap: a 6x6 input window serves 4 x 25 products, 36 loads where step 1 has 100, and the
// unpooled tensor never exists.
//
// Before the first launch copy the weights to the symbols conv1_weight, conv1_bias, conv2_weight, conv2_bias of the module
// (cuModuleGetGlobal). Launches: one block an image; block 6 * 160 = 960 (conv1) and 16 * 32 = 512 (conv2); no shared memory.
#include "common.cuh"
#include "lenet5/lenet5.cuh"

using T = TYPE_T;
using namespace lenet5;

extern "C" {
__constant__ T conv1_weight[kConv1Channels * kFilterTaps];
__constant__ T conv1_bias[kConv1Channels];
__constant__ T conv2_weight[kConv2Channels * kConv2Taps];
__constant__ T conv2_bias[kConv2Channels];
}

// One pool output. x points at the 6x6 window in the first input channel, weight at the output channel's filters.
template <int kChannelsIn, int kSide>
__device__ __forceinline__ float conv_relu_pool(const T* x, const T* weight, float bias) {
  float sum[kPool][kPool] = {{bias, bias}, {bias, bias}};
#pragma unroll 1
  for (int in = 0; in < kChannelsIn; ++in) {
    float window[kFilterSide + 1][kFilterSide + 1];
#pragma unroll
    for (int i = 0; i <= kFilterSide; ++i) {
#pragma unroll
      for (int j = 0; j <= kFilterSide; ++j) window[i][j] = to_float(x[(in * kSide + i) * kSide + j]);
    }
#pragma unroll
    for (int tap = 0; tap < kFilterTaps; ++tap) {
      const float w = to_float(weight[in * kFilterTaps + tap]);
#pragma unroll
      for (int q = 0; q < kPool * kPool; ++q) {
        float& s = sum[q / kPool][q % kPool];
        s = fmaf(window[tap / kFilterSide + q / kPool][tap % kFilterSide + q % kPool], w, s);
      }
    }
  }
  return relu_nan(max_nan(max_nan(sum[0][0], sum[0][1]), max_nan(sum[1][0], sum[1][1])));
}

// x [n, 1, 28, 28] -> y [n, 6, 12, 12].
ASSERT_LAUNCH(conv1_relu_pool_constant, 960, 0);
extern "C" __global__ void __launch_bounds__(960) conv1_relu_pool_constant(const T* __restrict__ x, int n, T* __restrict__ y) {
  constexpr int kThreadsAChannel = 160;
  const int channel = threadIdx.x / kThreadsAChannel, position = threadIdx.x % kThreadsAChannel;
  if (static_cast<int>(blockIdx.x) >= n || position >= kPool1Pixels) return;
  const int row = position / kPool1Side, col = position % kPool1Side;
  const T* window = x + blockIdx.x * kImagePixels + kPool * row * kImageSide + kPool * col;
  const float value = conv_relu_pool<1, kImageSide>(window, conv1_weight + channel * kFilterTaps, to_float(conv1_bias[channel]));
  y[(blockIdx.x * kConv1Channels + channel) * kPool1Pixels + position] = from_float<T>(value);
}

// x [n, 6, 12, 12] -> y [n, 16, 4, 4], which is also the flattened [n, 256].
ASSERT_LAUNCH(conv2_relu_pool_constant, 512, 0);
extern "C" __global__ void __launch_bounds__(512) conv2_relu_pool_constant(const T* __restrict__ x, int n, T* __restrict__ y) {
  const int channel = threadIdx.x / 32, position = threadIdx.x % 32;
  if (static_cast<int>(blockIdx.x) >= n || position >= kPool2Pixels) return;
  const int row = position / kPool2Side, col = position % kPool2Side;
  const T* window = x + blockIdx.x * kConv1Channels * kPool1Pixels + kPool * row * kPool1Side + kPool * col;
  const float value =
      conv_relu_pool<kConv1Channels, kPool1Side>(window, conv2_weight + channel * kConv2Taps, to_float(conv2_bias[channel]));
  y[blockIdx.x * kFeatures + channel * kPool2Pixels + position] = from_float<T>(value);
}
