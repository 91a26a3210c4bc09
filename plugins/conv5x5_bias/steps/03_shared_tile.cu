// conv5x5_bias, step 3: the image in shared memory, read from global memory once for all filters.
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, H - 4, W - 4]; no activation.
//
// A block computes all outputs of an image. Each pixel now comes from global memory once, which shows that global memory was not the
// limit: there is still one shared-memory load for each multiply-add, and shared memory delivers 32 words per cycle, a quarter of what
// the multiply-add units take. The weights are loaded again, one for each multiply-add, as in step 1, because the threads of a block
// compute different filters. The image, C * H * W floats, must fit in 48 KB.
//
// Grid: n blocks of 256.
#include "common.cuh"

using T = TYPE_T;
constexpr int kChannels = AXIS_C, kHeight = AXIS_H, kWidth = AXIS_W, kFilters = AXIS_K;
constexpr int kFilterSize = 5, kOutHeight = kHeight - kFilterSize + 1, kOutWidth = kWidth - kFilterSize + 1;
constexpr int kOutputs = kFilters * kOutHeight * kOutWidth;

extern "C" __global__ void conv5x5_bias_step03(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias,
                                               int n, T* __restrict__ y) {
  __shared__ float image[kChannels * kHeight * kWidth];
  const T* from = x + static_cast<size_t>(blockIdx.x) * kChannels * kHeight * kWidth;
  T* to = y + static_cast<size_t>(blockIdx.x) * kOutputs;
  for (int i = threadIdx.x; i < kChannels * kHeight * kWidth; i += blockDim.x) image[i] = to_float(from[i]);
  __syncthreads();

  for (int item = threadIdx.x; item < kOutputs; item += blockDim.x) {
    const int column = item % kOutWidth, row = item / kOutWidth % kOutHeight, filter = item / (kOutWidth * kOutHeight);
    float sum = to_float(bias[filter]);
    for (int channel = 0; channel < kChannels; ++channel) {
      const float* patch = image + (channel * kHeight + row) * kWidth + column;
      const T* taps = w + (filter * kChannels + channel) * kFilterSize * kFilterSize;
#pragma unroll
      for (int i = 0; i < kFilterSize; ++i) {
#pragma unroll
        for (int j = 0; j < kFilterSize; ++j) {
          sum = fmaf(patch[i * kWidth + j], to_float(taps[i * kFilterSize + j]), sum);
        }
      }
    }
    to[item] = from_float<T>(sum);
  }
}
