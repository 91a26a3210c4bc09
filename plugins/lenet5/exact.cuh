// The fallback of lenet5_split: one warp computes one image with plain float32 multiply-adds, whatever its numbers are. Where a whole
// block takes the fallback, each of its warps computes an image.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/images.cuh"

namespace lenet5 {

template <int kChannels, int kSide, int kOutputs>
__device__ __forceinline__ void conv_pool_exact(float* out, const float* in, const float* weight, const float* bias, int lane) {
  constexpr int kOutSide = (kSide - kFilterSide + 1) / kPool;
#pragma unroll 1
  for (int i = lane; i < kOutputs * kOutSide * kOutSide; i += kLanes) {
    const int output = i / (kOutSide * kOutSide), y = i / kOutSide % kOutSide, x = i % kOutSide;
    float sum[kPool][kPool] = {};
#pragma unroll 1
    for (int channel = 0; channel < kChannels; ++channel) {
      const float* window = in + (channel * kSide + kPool * y) * kSide + kPool * x;
      const float* filter = weight + (output * kChannels + channel) * kFilterTaps;
#pragma unroll  // neighbouring taps share most of what they load
      for (int tap = 0; tap < kFilterTaps; ++tap) {
        const float* corner = window + tap / kFilterSide * kSide + tap % kFilterSide;
        sum[0][0] = fmaf(corner[0], filter[tap], sum[0][0]);
        sum[0][1] = fmaf(corner[1], filter[tap], sum[0][1]);
        sum[1][0] = fmaf(corner[kSide], filter[tap], sum[1][0]);
        sum[1][1] = fmaf(corner[kSide + 1], filter[tap], sum[1][1]);
      }
    }
    out[i] = relu_nan(max4(sum[0][0], sum[0][1], sum[1][0], sum[1][1]) + bias[output]);
  }
  __syncwarp();
}

template <int kIn, int kOut, bool kRelu>
__device__ __forceinline__ void linear_exact(float* out, const float* in, const float* weight, const float* bias, int lane) {
#pragma unroll 1
  for (int i = lane; i < kOut; i += kLanes) {
    float sum = 0.0f;
#pragma unroll 8
    for (int k = 0; k < kIn; ++k) sum = fmaf(in[k], weight[i * kIn + k], sum);
    sum += bias[i];
    out[i] = kRelu ? relu_nan(sum) : sum;
  }
  __syncwarp();
}

constexpr int kExactFloats = kConv1Channels * kPool1Pixels + kFeatures;  // of scratch

__device__ __noinline__ void image_exact(float* y, const float* image, const Weights<float>& weights, float* scratch, int lane) {
  float* pooled1 = scratch;
  float* pooled2 = pooled1 + kConv1Channels * kPool1Pixels;
  float* hidden1 = pooled1;  // pooled1 is done with by then
  float* hidden2 = hidden1 + kFc1;
  conv_pool_exact<1, kImageSide, kConv1Channels>(pooled1, image, weights.conv1, weights.conv1_bias, lane);
  conv_pool_exact<kConv1Channels, kPool1Side, kConv2Channels>(pooled2, pooled1, weights.conv2, weights.conv2_bias, lane);
  linear_exact<kFeatures, kFc1, true>(hidden1, pooled2, weights.fc1, weights.fc1_bias, lane);
  linear_exact<kFc1, kFc2, true>(hidden2, hidden1, weights.fc2, weights.fc2_bias, lane);
  linear_exact<kFc2, kClasses, false>(y, hidden2, weights.fc3, weights.fc3_bias, lane);
}

}  // namespace lenet5
