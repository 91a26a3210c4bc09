// topk (see kernel.cu) with a warp a row: for short rows and few elements of each.
//
// x [rows, N] -> values [rows, K], indices [rows, K] int32.
//
// Mapping: a warp holds a row in registers, each lane its own elements and the largest of their keys. K times, the warp finds
// the largest of the lanes' keys, and the lane that had it strikes the element out.
// Bytes: x once.
#include "topk/topk.cuh"

namespace topk {

constexpr int kThreads = 256;
constexpr int kRows = kThreads / 32;
constexpr int kWidth = kLength >= 256 ? row_width<T>(kLength) : 1;  // such that most lanes have elements
constexpr int kEach = ceil_div(kLength, 32 * kWidth);

__device__ __forceinline__ void row_of_warp(const T* __restrict__ row, T* __restrict__ values, int* __restrict__ indices) {
  const int lane = threadIdx.x % 32;
  const auto index = [&](int i, int j) { return (i * 32 + lane) * kWidth + j; };
  unsigned order[kEach][kWidth];  // 0: no element, or struck out
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (index(i, 0) < kLength) {
      const Vector<T, kWidth> vector = load_vector<kWidth>(row + index(i, 0));
#pragma unroll
      for (int j = 0; j < kWidth; ++j) order[i][j] = ordered(vector.value[j]);
    } else {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) order[i][j] = 0;
    }
  }
  Key result = 0, struck = 0;
#pragma unroll 1
  for (int rank = 0; rank < kTop; ++rank) {
    Key largest = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const Key key = key_of(order[i][j], index(i, j));
        if (key == struck) order[i][j] = 0;
        if (order[i][j] != 0) largest = max(largest, key);
      }
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) largest = max(largest, __shfl_xor_sync(kAllLanes, largest, offset));
    struck = largest;
    if (lane == rank) result = largest;
  }
  if (lane < kTop) {
    values[lane] = value_of(result);
    indices[lane] = index_of(result);
  }
}

}  // namespace topk

using topk::T;
ASSERT_LAUNCH(topk_lanes, topk::kThreads, 0);

extern "C" __global__ void __launch_bounds__(topk::kThreads)
    topk_lanes(const T* __restrict__ x, int rows, T* __restrict__ values, int* __restrict__ indices) {
  wait_for_previous_kernel();
  const int row = blockIdx.x * topk::kRows + threadIdx.x / 32;
  if (row >= rows) return;
  const size_t start = static_cast<size_t>(row) * topk::kTop;
  topk::row_of_warp(x + static_cast<size_t>(row) * topk::kLength, values + start, indices + start);
}
