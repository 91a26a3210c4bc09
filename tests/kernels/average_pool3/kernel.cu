// average_pool3: the mean of each 3x3 window, with padding and stride. Made to exercise open integer attributes.
//
// x [n, c, h, w] -> y [n, c, (h + 2 pad - 3) / stride + 1, the same of w]; padding counts as zeros. One thread an output.
#include "common.cuh"

using T = TYPE_T;
constexpr int kThreads = 128, kWindow = 3, kPad = ATTR_PAD, kStride = ATTR_STRIDE;
ASSERT_LAUNCH(average_pool3_plain, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    average_pool3_plain(const T* __restrict__ x, int maps, int h, int w, int out_h, int out_w, T* __restrict__ y) {
  const int item = blockIdx.x * kThreads + threadIdx.x;
  if (item >= maps * out_h * out_w) return;
  const int column = item % out_w * kStride - kPad, row = item / out_w % out_h * kStride - kPad;
  const T* map = x + static_cast<size_t>(item / (out_w * out_h)) * h * w;
  float sum = 0.0f;
  for (int i = row; i < row + kWindow; ++i) {
    for (int j = column; j < column + kWindow; ++j) {
      if (0 <= i && i < h && 0 <= j && j < w) sum += to_float(map[i * w + j]);
    }
  }
  y[item] = from_float<T>(sum / (kWindow * kWindow));
}
