// conv_int8 for what the other variant's shared memory does not hold: a thread an output, from global memory.
//
// x [n, C, H, W] int8, w [K, C, R, R] int8, scales and bias float -> y [n, K, OH, OW] int8; see tensor_core.cu.
#include "conv_int8/layer.cuh"

ASSERT_LAUNCH(conv_int8_any_size, conv_int8::kThreads, 0);
extern "C" __global__ void __launch_bounds__(conv_int8::kThreads)
    conv_int8_any_size(const signed char* __restrict__ x, const float* __restrict__ x_scale, const signed char* __restrict__ w,
                       const float* __restrict__ w_scale, const float* __restrict__ bias, const float* __restrict__ y_scale, int n,
                       signed char* __restrict__ y) {
  wait_for_previous_kernel();
  using namespace conv_int8;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= static_cast<long long>(n) * kFilters * kOutPlane) return;
  const long long plane = i / kOutPlane, image = plane / kFilters;
  const int at = static_cast<int>(i - plane * kOutPlane), filter = static_cast<int>(plane - image * kFilters);
  x += image * kImageBytes;
  w += filter * kFilterBytes;
  int largest = 0;
#pragma unroll 1
  for (int window = 0; window < kPool * kPool; ++window) {
    const int top = (at / kOutWidth * kPool + window / kPool) * kStride - kPad;
    const int left = (at % kOutWidth * kPool + window % kPool) * kStride - kPad;
    int sum = 0;
#pragma unroll 1
    for (int row = 0; row < kChannels * kSize; ++row) {
      const int y_of_x = top + row % kSize;
      if (y_of_x < 0 || y_of_x >= kHeight) continue;
      const signed char* from = x + (row / kSize * kHeight + y_of_x) * kWidth;
#pragma unroll
      for (int tap = 0; tap < kSize; ++tap) {
        const int column = left + tap;
        if (column >= 0 && column < kWidth) sum += __ldg(from + column) * __ldg(w + row * kSize + tap);
      }
    }
    largest = window == 0 ? sum : max(largest, sum);
  }
  const Scale scale = scale_of(filter, kFilters, x_scale, w_scale, bias, y_scale);
  y[i] = static_cast<signed char>(requantized(static_cast<float>(largest), scale));
}
