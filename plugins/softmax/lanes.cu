// softmax (see kernel.cu) with one or two rows a warp: for short rows.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: lanes.cuh, 8 rows a block, so 16 or 32 lanes a row as the variant declares its threads; they hold it in registers.
// Bytes: x and y once.
#include "softmax/lanes.cuh"

using softmax::T;
constexpr int kRows = 8;
constexpr int kLanes = LAUNCH_THREADS / kRows;
ASSERT_LAUNCH(softmax_lanes, kRows * kLanes, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS) softmax_lanes(const T* __restrict__ x, int rows, T* __restrict__ y) {
  using namespace softmax;
  const int lane = threadIdx.x % kLanes, row = blockIdx.x * kRows + threadIdx.x / kLanes;
  LaneRow<kLanes> values;
  values.load(x + static_cast<size_t>(min(row, rows - 1)) * kLength, lane);
  T* const out = y + static_cast<size_t>(row) * kLength;
  values.compute(lane, [&](int element, const Vector<T, kWidth>& vector) {
    if (row < rows) store_vector(out + element, vector);
  });
}
