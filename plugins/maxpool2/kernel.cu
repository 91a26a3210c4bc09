// maxpool2: y[n, c, i, j] = max of the 2x2 window of x at (2 i, 2 j); stride 2, no padding, odd edges dropped; NaN wins.
//
// x [planes, H, W], y [planes, H / 2, W / 2], planes = n * channels.
//
// Mapping: an item is the outputs of one 16-byte pack in each of two rows (of two pixels where rows are no whole packs). A thread computes
// kItems of them, whose loads are all under way before the first is used; neighbouring threads have neighbouring packs.
//
// Bytes: x and y once; nothing else limits it.
// What was measured: docs/kernels/maxpool2.md.
#include "common.cuh"

using T = TYPE_T;
constexpr int kHeight = AXIS_H, kWidth = AXIS_W;
constexpr int kOutHeight = kHeight / 2, kOutWidth = kWidth / 2;
constexpr int kThreads = 256;

constexpr bool kWide = kWidth % Pack16<T>::kCount == 0;
constexpr int kRun = kWide ? Pack16<T>::kCount / 2 : 1;  // outputs of an item
constexpr int kRuns = kOutWidth / kRun;
constexpr int kItems = kWide ? 2 : 1;

using Pair = Vector<T, 2 * kRun>;
using Run = Vector<T, kRun>;

__device__ __forceinline__ Pair load_pair(const T* address) {
  if constexpr (kWide) {
    return load_vector<2 * kRun>(address);
  } else {
    return {{address[0], address[1]}};  // an odd width leaves no alignment
  }
}

ASSERT_LAUNCH(maxpool2, kThreads, 0);
extern "C" __global__ void __launch_bounds__(kThreads) maxpool2(const T* __restrict__ x, int planes, T* __restrict__ y) {
  wait_for_previous_kernel();
  const unsigned rows = static_cast<unsigned>(planes) * kOutHeight;  // a tensor has fewer than 2^31 elements
  const unsigned first = blockIdx.x * (kItems * kThreads) + threadIdx.x;
  Pair upper[kItems], lower[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const unsigned item = first + i * kThreads, row = item / kRuns, column = item % kRuns * kRun;
    if (row >= rows) break;
    const size_t input_row = kHeight % 2 == 0 ? 2 * row : row / kOutHeight * kHeight + row % kOutHeight * 2;
    const T* from = x + input_row * kWidth + 2 * column;
    upper[i] = load_pair(from);
    lower[i] = load_pair(from + kWidth);
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const unsigned item = first + i * kThreads, row = item / kRuns, column = item % kRuns * kRun;
    if (row >= rows) break;
    Run run;
#pragma unroll
    for (int j = 0; j < kRun; ++j) {
      run.value[j] = from_float<T>(max_nan(max_nan(to_float(upper[i].value[2 * j]), to_float(upper[i].value[2 * j + 1])),
                                           max_nan(to_float(lower[i].value[2 * j]), to_float(lower[i].value[2 * j + 1]))));
    }
    store_vector(y + static_cast<size_t>(row) * kOutWidth + column, run);
  }
}
