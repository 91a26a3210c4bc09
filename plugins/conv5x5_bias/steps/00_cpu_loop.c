// conv5x5_bias, step 0: plain loops on one CPU thread, the first program of the write-up.
//
// x [n, C, H, W], w [K, C, 5, 5], bias [K], y [n, K, H - 4, W - 4]; float, no activation.
//
// Every output is a chain of 25 * C multiply-adds, and each waits for the sum before it; the CPU overlaps only different outputs. For
// 10,000 images of 28x28 and 50 filters there are 7.2e9 multiply-adds, which take seconds. Nothing here is tuned: a CPU can do better.
// GCC 12 keeps the loops at -O2; at -O3 it unrolls the taps and computes four outputs at once, which rounds the same way and takes a
// fraction of the time.
//
// The sizes are compiled in as in the other steps: cc -O2 -DAXIS_C=1 -DAXIS_H=28 -DAXIS_W=28 -DAXIS_K=50.
#include <stddef.h>

enum { kChannels = AXIS_C, kHeight = AXIS_H, kWidth = AXIS_W, kFilters = AXIS_K, kFilterSize = 5 };
enum { kOutHeight = kHeight - kFilterSize + 1, kOutWidth = kWidth - kFilterSize + 1 };

void conv5x5_bias_step00(const float* x, const float* w, const float* bias, int n, float* y) {
  for (int image = 0; image < n; ++image) {
    for (int filter = 0; filter < kFilters; ++filter) {
      for (int row = 0; row < kOutHeight; ++row) {
        for (int column = 0; column < kOutWidth; ++column) {
          float sum = bias[filter];
          for (int channel = 0; channel < kChannels; ++channel) {
            const float* patch = x + (((size_t)image * kChannels + channel) * kHeight + row) * kWidth + column;
            const float* taps = w + ((size_t)filter * kChannels + channel) * kFilterSize * kFilterSize;
            for (int i = 0; i < kFilterSize; ++i) {
              for (int j = 0; j < kFilterSize; ++j) {
                sum += patch[i * kWidth + j] * taps[i * kFilterSize + j];
              }
            }
          }
          y[(((size_t)image * kFilters + filter) * kOutHeight + row) * kOutWidth + column] = sum;
        }
      }
    }
  }
}
