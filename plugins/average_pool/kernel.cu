// average_pool: y = the mean of each R x R window of x; the same stride and padding on all sides.
//
// x [planes, H, W], y [planes, OH, OW], planes = n * channels. The padding counts as zeros, or not at all.
//
// Mapping: windows/direct.cuh; one or two rows of up to four outputs a thread. Bytes: x and y once from device memory.
// What was measured: docs/kernels/average_pool.md.
#include "windows/direct.cuh"

using T = TYPE_T;
using Layer = Windows<T, AXIS_H, AXIS_W, ATTR_SIZE, ATTR_STRIDE, ATTR_PAD>;
constexpr int kThreads = 128;
constexpr bool kPaddingCounts = ATTR_COUNT_INCLUDE_PAD || Layer::kPad == 0;
ASSERT_LAUNCH(average_pool_pair, kThreads, 0);
ASSERT_LAUNCH(average_pool_single, kThreads, 0);

// The elements of the plane in a window that begins at `first`.
__device__ __forceinline__ int inside(int first, int size) {
  return min(first + Layer::kSize, size) - max(first, 0);
}

struct Mean {
  static constexpr bool kOutsideIsZero = true;

  __device__ __forceinline__ float first() const { return 0.0f; }
  __device__ __forceinline__ float next(float sum, float x, int, int) const { return sum + x; }
  __device__ __forceinline__ float last(float sum, int row, int column) const {
    if constexpr (kPaddingCounts) return sum * (1.0f / (Layer::kSize * Layer::kSize));
    const int rows = inside(row * Layer::kStride - Layer::kPad, Layer::kHeight);
    const int columns = inside(column * Layer::kStride - Layer::kPad, Layer::kWidth);
    return __fdividef(sum, static_cast<float>(rows * columns));
  }
};

extern "C" __global__ void __launch_bounds__(kThreads)
    average_pool_pair(const T* __restrict__ x, int planes, T* __restrict__ y) {
  wait_for_previous_kernel();
  pool_planes<Layer, 2, kThreads>(x, planes, Mean(), y);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    average_pool_single(const T* __restrict__ x, int planes, T* __restrict__ y) {
  wait_for_previous_kernel();
  pool_planes<Layer, 1, kThreads>(x, planes, Mean(), y);
}
