// scale_add_softmax (see kernel.cu) with one or two rows a warp: for rows of up to a thousand elements.
//
// x [outer, repeat, inner, K], mask [outer, 1, inner, K] -> y [outer, repeat, inner, K].
//
// Mapping: softmax/lanes.cuh, 8 rows a block, so 16 or 32 lanes a row as the variant declares its threads.
// Bytes: x and y once; mask from L2 as often as it is repeated.
#include "scale_add_softmax/mask.cuh"
#include "softmax/lanes.cuh"

using softmax::T;
constexpr int kRows = 8;
constexpr int kLanes = LAUNCH_THREADS / kRows;
ASSERT_LAUNCH_WHERE(scale_add_softmax_lanes, LAUNCH_THREADS == 16 * kRows || LAUNCH_THREADS == 32 * kRows, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    scale_add_softmax_lanes(const T* __restrict__ x, const T* __restrict__ mask, int rows, int repeat, int inner,
                            T* __restrict__ y) {
  wait_for_previous_kernel();
  using namespace softmax;
  const int lane = threadIdx.x % kLanes, row = blockIdx.x * kRows + threadIdx.x / kLanes, inside = min(row, rows - 1);
  LaneRow<kLanes> values(x + static_cast<size_t>(inside) * kLength, lane);
  const T* const own = mask + mask_row(inside, repeat, inner) * kLength;
  values.for_each(lane, [&](int i, int first) {
    const Vector<T, kWidth> vector = load_vector<kWidth>(own + first);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) values.value[i][j] = masked(values.value[i][j], vector.value[j]);
  });
  T* const out = y + static_cast<size_t>(row) * kLength;
  values.compute(lane, [&](int element, const Vector<T, kWidth>& vector) {
    if (row < rows) store_vector(out + element, vector);
  });
}
