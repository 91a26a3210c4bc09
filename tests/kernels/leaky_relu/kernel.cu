// leaky_relu: y = x where x >= 0, else alpha * x. Made to exercise a float attribute, not to be fast.
//
// x [n, w] -> y [n, w]; alpha is compiled in, exactly. One thread an element.
#include "common.cuh"

using T = TYPE_T;
constexpr int kThreads = 128;
ASSERT_LAUNCH(leaky_relu_plain, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads) leaky_relu_plain(const T* __restrict__ x, int count, T* __restrict__ y) {
  const int item = blockIdx.x * kThreads + threadIdx.x;
  if (item >= count) return;
  const float value = to_float(x[item]);
  y[item] = from_float<T>(value < 0.0f ? ATTR_ALPHA * value : value);
}
