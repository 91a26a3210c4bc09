// conv5x5_bias, step 1: one thread per output, everything from global memory.
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, H - 4, W - 4]; no activation.
//
// Each multiply-add needs two loads, so the load units are the limit, not arithmetic: L1 serves most of the loads, but a load takes
// as long to issue as four multiply-adds.
//
// Grid: ceil(n * K * (H - 4) * (W - 4) / 256) blocks of 256.
#include "common.cuh"

using T = TYPE_T;
constexpr int kChannels = AXIS_C, kHeight = AXIS_H, kWidth = AXIS_W, kFilters = AXIS_K;
constexpr int kFilterSize = 5, kOutHeight = kHeight - kFilterSize + 1, kOutWidth = kWidth - kFilterSize + 1;

extern "C" __global__ void conv5x5_bias_step01(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias,
                                               int n, T* __restrict__ y) {
  const size_t item = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int column = item % kOutWidth, row = item / kOutWidth % kOutHeight;
  const int filter = item / (kOutWidth * kOutHeight) % kFilters;
  const size_t image = item / (kOutWidth * kOutHeight * kFilters);
  if (image >= n) return;

  float sum = to_float(bias[filter]);
  for (int channel = 0; channel < kChannels; ++channel) {
    const T* patch = x + ((image * kChannels + channel) * kHeight + row) * kWidth + column;
    const T* taps = w + (filter * kChannels + channel) * kFilterSize * kFilterSize;
    for (int i = 0; i < kFilterSize; ++i) {
      for (int j = 0; j < kFilterSize; ++j) {
        sum = fmaf(to_float(patch[i * kWidth + j]), to_float(taps[i * kFilterSize + j]), sum);
      }
    }
  }
  y[item] = from_float<T>(sum);
}
