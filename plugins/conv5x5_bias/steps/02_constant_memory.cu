// conv5x5_bias, step 2: the weights in constant memory.
//
// x [n, C, H, W], bias [K], y [n, K, H - 4, W - 4]; no activation. The kernel does not read the argument `w`, which is there so that all
// steps have the same arguments: the program that loads the module copies the weights [K, C, 5, 5] in float into the symbol
// `conv5x5_bias_weights` once.
//
// A block computes one filter, so all threads of a warp need the same weight: the constant cache serves it to all of them as an
// operand of the multiply-add, and half of the load instructions are gone. The weights may have at most 64 KB.
//
// Grid: (ceil(n * (H - 4) * (W - 4) / 256), K) blocks of 256.
#include "common.cuh"

using T = TYPE_T;
constexpr int kChannels = AXIS_C, kHeight = AXIS_H, kWidth = AXIS_W, kFilters = AXIS_K;
constexpr int kFilterSize = 5, kOutHeight = kHeight - kFilterSize + 1, kOutWidth = kWidth - kFilterSize + 1;

extern "C" {
__constant__ float conv5x5_bias_weights[kFilters * kChannels * kFilterSize * kFilterSize];
}

extern "C" __global__ void conv5x5_bias_step02(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias,
                                               int n, T* __restrict__ y) {
  const size_t item = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int column = item % kOutWidth, row = item / kOutWidth % kOutHeight, filter = blockIdx.y;
  const size_t image = item / (kOutWidth * kOutHeight);
  if (image >= n) return;

  float sum = to_float(bias[filter]);
  for (int channel = 0; channel < kChannels; ++channel) {
    const T* patch = x + ((image * kChannels + channel) * kHeight + row) * kWidth + column;
    const float* taps = conv5x5_bias_weights + (filter * kChannels + channel) * kFilterSize * kFilterSize;
#pragma unroll
    for (int i = 0; i < kFilterSize; ++i) {
#pragma unroll
      for (int j = 0; j < kFilterSize; ++j) {
        sum = fmaf(to_float(patch[i * kWidth + j]), taps[i * kFilterSize + j], sum);
      }
    }
  }
  y[((image * kFilters + filter) * kOutHeight + row) * kOutWidth + column] = from_float<T>(sum);
}
