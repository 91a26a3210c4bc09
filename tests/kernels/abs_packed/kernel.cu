// abs_packed: y = |x|, from one of TensorRT's layouts into another. Made to exercise layouts, not to be fast.
//
// x [n, c, h, w] lies as [n][h][w][c in packs of 8], y as [n][packs of 32 of c][h][w][32]. One thread a number of y; what is behind
// the last channel is not read, and zero in y.
#include "common.cuh"

using T = TYPE_T;
constexpr int kThreads = 128, kIn = 8, kOut = 32;
ASSERT_LAUNCH(abs_packed_plain, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    abs_packed_plain(const T* __restrict__ x, int n, int c, int h, int w, T* __restrict__ y) {
  const int packs = (c + kOut - 1) / kOut, channels_in_memory = (c + kIn - 1) / kIn * kIn;
  const long long item = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= static_cast<long long>(n) * packs * h * w * kOut) return;
  const long long point = item / kOut;
  const int column = point % w, row = point / w % h, pack = point / w / h % packs, image = point / w / h / packs;
  const int channel = pack * kOut + item % kOut;
  float value = 0.0f;
  if (channel < c) {
    value = to_float(x[((static_cast<long long>(image) * h + row) * w + column) * channels_in_memory + channel]);
  }
  y[item] = from_float<T>(fabsf(value));
}
