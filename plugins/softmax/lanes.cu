// softmax (see kernel.cu) with several rows a warp: for short rows.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: lanes.cuh. 16 or 32 neighbouring lanes share a row and hold it in registers.
// Bytes: x and y once.
#include "softmax/lanes.cuh"

namespace softmax {

constexpr int kThreads = 256;

template <int kLanes>
__device__ __forceinline__ void rows_of_lanes(const T* __restrict__ x, unsigned rows, T* __restrict__ y) {
  const int lane = threadIdx.x % kLanes;
  const unsigned index = blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes;
  LaneRow<kLanes> row;
  row.load(x + static_cast<size_t>(min(index, rows - 1)) * kLength, lane);
  T* const out = y + static_cast<size_t>(index) * kLength;
  row.compute(lane, [&](int element, const Vector<T, kWidth>& vector) {
    if (index < rows) store_vector(out + element, vector);
  });
}

}  // namespace softmax

#define SOFTMAX_LANES(NAME, LANES)                                                                             \
  ASSERT_LAUNCH(NAME, softmax::kThreads, 0);                                                                   \
  extern "C" __global__ void __launch_bounds__(softmax::kThreads)                                              \
      NAME(const softmax::T* __restrict__ x, int rows, softmax::T* __restrict__ y) {                           \
    if constexpr (is_launched(#NAME)) softmax::rows_of_lanes<LANES>(x, rows, y);                               \
  }

SOFTMAX_LANES(softmax_lanes16, 16)
SOFTMAX_LANES(softmax_lanes32, 32)
