// topk_values: the k largest numbers of each row, in descending order. Made to exercise k as a size, not to be fast.
//
// x [n, w] -> y [n, k]. One thread a row, which keeps the largest so far in registers (k is compiled in); NaN is larger than any.
#include "common.cuh"

using T = TYPE_T;
constexpr int kThreads = 32, kKept = ATTR_K;
ASSERT_LAUNCH(topk_values_plain, kThreads, 0);

__device__ __forceinline__ bool is_larger(float a, float b) { return a > b || (isnan(a) && !isnan(b)); }

extern "C" __global__ void __launch_bounds__(kThreads)
    topk_values_plain(const T* __restrict__ x, int n, int w, T* __restrict__ y) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= n) return;
  float best[kKept];
#pragma unroll
  for (int i = 0; i < kKept; ++i) best[i] = -__int_as_float(0x7f800000);  // NVRTC has no INFINITY
  for (int j = 0; j < w; ++j) {
    float value = to_float(x[static_cast<size_t>(row) * w + j]);
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (is_larger(value, best[i])) {
        const float lower = best[i];
        best[i] = value;
        value = lower;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kKept; ++i) y[row * kKept + i] = from_float<T>(best[i]);
}
