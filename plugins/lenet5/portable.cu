// LeNet-5 in one launch, a block for one or two images, on every GPU from sm_75 on: y = LeNet5(x), layers in lenet5.cuh.
//
// x [n, 1, 28, 28] TX, ten weights T as torch stores them -> y [n, 10] TY; arithmetic is float.
//
// Mapping. All activations are in shared memory. conv1: a thread computes one output of the pool in kConv1Each channels. conv2: a
// thread computes rows of one channel's outputs from kDepth of the six input channels; the thread that pools them adds the partial
// sums (convolutions.cuh). Linear layers: a warp holds rows of the weights in registers (linear.cuh). fc1's weights take longer to
// arrive from L2 than the arithmetic takes, so a warp loads them before conv1, and the weights of fc2 and fc3 during conv2.
//
// lenet5_portable (grid n) is for at most as many images as multiprocessors, lenet5_portable2 (grid ceil_div(n, 2)) for more; both
// are right for every n.
//
// Bytes: x, and the weights once per block from L2, 178 KB in fp32.
// What was measured: docs/kernels/lenet5.md.

#include "common.cuh"
#include "lenet5/convolutions.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/linear.cuh"

using TX = TYPE_TX;
using T = TYPE_T;
using TY = TYPE_TY;

namespace lenet5 {

// kImages images and kThreads threads a block; conv1 channels a thread; parts that conv2's input channels are split into, and
// rows of conv2 that a thread makes.
template <int kImages, int kThreads, int kConv1Each, int kSplits, int kRows>
__device__ __forceinline__ void block_forward(const TX* __restrict__ x, const Weights<T>& weights, int n, TY* __restrict__ y) {
  using S = Share<1>;
  constexpr int kWarps = kThreads / 32;
  constexpr int kFeatureItems = kImages * kFeatures;

  // conv2's partial sums reuse the memory of the image and of conv1's filters, which nobody reads by then.
  constexpr int kImageFloats = kImages * kImagePixels;
  constexpr int kPartialFloats = kImages * kSplits * kConv2Side * kConv2Side * kConv2Channels;
  constexpr int kEarlyFloats = kImageFloats + kConv1Channels * kFilter1Stride;
  __shared__ alignas(16) float scratch[kEarlyFloats > kPartialFloats ? kEarlyFloats : kPartialFloats];
  __shared__ alignas(16) float filters2[kConv2Channels * kConv2Taps];
  __shared__ alignas(16) float patch[kImages * kConv1Channels * kPool1Pixels];
  __shared__ alignas(16) float features[kFeatureItems];
  __shared__ alignas(16) float hidden1[kImages * kFc1];
  __shared__ alignas(16) float hidden2[kImages * kFc2];
  float* const image = scratch;
  float* const filters1 = scratch + kImageFloats;
  float* const partial = scratch;

  const unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int first_image = blockIdx.x * kImages;

  StageConv1<TX, T, 1, kImages, kThreads> stage1;
  stage1.load(x, weights.conv1, weights.conv1_bias, first_image, n, 0, thread);
  StageConv2<T, kThreads> stage2;
  stage2.load(weights.conv2, thread);
  Linear<T, kFeatures, kFc1, kWarps, kImages> fc1;
  fc1.load(weights.fc1, weights.fc1_bias, warp, lane);

  stage1.store(image, filters1, thread);
  stage2.store(filters2, thread);
  __syncthreads();
  conv1_pool<1, kImages, kThreads, 32, kConv1Each>(image, filters1, patch, thread);
  __syncthreads();
  conv2_partial<1, kImages, kThreads, kSplits, kRows>(patch, filters2, partial, thread);

  Linear<T, kFc1, kFc2, kWarps, kImages> fc2;
  Linear<T, kFc2, kClasses, kWarps, kImages> fc3;
  fc2.load(weights.fc2, weights.fc2_bias, warp, lane);
  fc3.load(weights.fc3, weights.fc3_bias, warp, lane);
  __syncthreads();
  for (unsigned item = thread; item < kFeatureItems; item += kThreads) {
    const unsigned which = item / kFeatures, element = item % kFeatures;
    const float bias = to_float(weights.conv2_bias[element / kPool2Pixels]);
    features[item] = pooled_feature<1, kSplits>(partial, bias, which, element);
  }
  __syncthreads();

  const float total1 = fc1.apply(features, lane);
  const unsigned row1 = fc1.row_of(warp, lane);
  if (row1 < kFc1) hidden1[fc1.image_of(lane) * kFc1 + row1] = relu_nan(total1);
  __syncthreads();
  const float total2 = fc2.apply(hidden1, lane);
  const unsigned row2 = fc2.row_of(warp, lane);
  if (row2 < kFc2) hidden2[fc2.image_of(lane) * kFc2 + row2] = relu_nan(total2);
  __syncthreads();
  const float logit = fc3.apply(hidden2, lane);
  const unsigned row3 = fc3.row_of(warp, lane);
  const int which = first_image + static_cast<int>(fc3.image_of(lane));
  if (row3 < kClasses && which < n) y[static_cast<long long>(which) * kClasses + row3] = from_float<TY>(logit);
}

}  // namespace lenet5

#define LENET5_PORTABLE(NAME, IMAGES, THREADS, MIN_BLOCKS, CONV1_EACH, SPLITS, ROWS)                                    \
  ASSERT_LAUNCH(NAME, THREADS, 0);                                                                                      \
  extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)                                                     \
      NAME(const TX* __restrict__ x, const T* __restrict__ conv1_weight, const T* __restrict__ conv1_bias,              \
           const T* __restrict__ conv2_weight, const T* __restrict__ conv2_bias, const T* __restrict__ fc1_weight,      \
           const T* __restrict__ fc1_bias, const T* __restrict__ fc2_weight, const T* __restrict__ fc2_bias,            \
           const T* __restrict__ fc3_weight, const T* __restrict__ fc3_bias, int n, TY* __restrict__ y) {               \
    lenet5::block_forward<IMAGES, THREADS, CONV1_EACH, SPLITS, ROWS>(                                                   \
        x,                                                                                                              \
        {conv1_weight, conv1_bias, conv2_weight, conv2_bias, fc1_weight, fc1_bias, fc2_weight, fc2_bias, fc3_weight,    \
         fc3_bias},                                                                                                     \
        n, y);                                                                                                          \
  }

// Images, threads, blocks a multiprocessor at least, channels of conv1, splits and rows of conv2. Two images a block halve the
// traffic of the weights, and pay once there are more images than multiprocessors.
LENET5_PORTABLE(lenet5_portable, 1, 384, 1, 3, 3, 1)
LENET5_PORTABLE(lenet5_portable2, 2, 384, 1, 3, 3, 2)
