// max_pool: y = the largest element of each R x R window of x; the same stride and padding on all sides; NaN wins.
//
// x [planes, H, W], y [planes, OH, OW], planes = n * channels. Elements outside the plane do not count.
//
// Mapping: windows/direct.cuh; one or two rows of up to four outputs a thread. Bytes: x and y once from device memory.
// What was measured: docs/kernels/average_pool.md.
#include "windows/direct.cuh"

using T = TYPE_T;
using Layer = Windows<T, AXIS_H, AXIS_W, ATTR_SIZE, ATTR_STRIDE, ATTR_PAD>;
constexpr int kThreads = 128;
ASSERT_LAUNCH(max_pool_pair, kThreads, 0);
ASSERT_LAUNCH(max_pool_single, kThreads, 0);

struct Largest {
  static constexpr bool kOutsideIsZero = false;

  __device__ __forceinline__ float first() const { return __int_as_float(0xff800000); }  // -infinity
  __device__ __forceinline__ float next(float largest, float x, int, int) const { return max_nan(largest, x); }
  __device__ __forceinline__ float last(float largest, int, int) const { return largest; }
};

extern "C" __global__ void __launch_bounds__(kThreads)
    max_pool_pair(const T* __restrict__ x, int planes, T* __restrict__ y) {
  wait_for_previous_kernel();
  pool_planes<Layer, 2, kThreads>(x, planes, Largest(), y);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    max_pool_single(const T* __restrict__ x, int planes, T* __restrict__ y) {
  wait_for_previous_kernel();
  pool_planes<Layer, 1, kThreads>(x, planes, Largest(), y);
}
