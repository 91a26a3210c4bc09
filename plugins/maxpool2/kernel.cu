// maxpool2: y[n, c, i, j] = max of the 2x2 window of x at (2 i, 2 j); stride 2, no padding, odd edges dropped; NaN wins.
//
// x [planes, H, W], y [planes, H / 2, W / 2], planes = n * channels.
//
// Mapping: one thread computes the outputs of one 16-byte pack in each of two rows (of two pixels where rows are no whole packs);
// neighbouring threads have neighbouring packs.
//
// Bytes: x and y once, both marked streaming; nothing else limits it.
// What was measured: docs/kernels/maxpool2.md.
#include "common.cuh"

using T = TYPE_T;
constexpr int kHeight = AXIS_H, kWidth = AXIS_W;
constexpr int kOutHeight = kHeight / 2, kOutWidth = kWidth / 2;
constexpr int kThreads = 256;
ASSERT_LAUNCH(maxpool2, kThreads, 0);

constexpr bool kWide = kWidth % Pack16<T>::kCount == 0;
constexpr int kRun = kWide ? Pack16<T>::kCount / 2 : 1;  // outputs of a thread
constexpr int kRuns = kOutWidth / kRun;

using Run = Vector<T, kRun>;

__device__ __forceinline__ void store_run(T* address, const Run& run) {
  if constexpr (sizeof(Run) == 8) {
    __stcs(reinterpret_cast<uint2*>(address), *reinterpret_cast<const uint2*>(&run));
  } else {
    *address = run.value[0];
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) maxpool2(const T* __restrict__ x, int planes, T* __restrict__ y) {
  const size_t item = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const size_t plane = item / (kOutHeight * kRuns);
  if (plane >= planes) return;
  const int inside = static_cast<int>(item % (kOutHeight * kRuns));
  const int row = inside / kRuns, column = inside % kRuns * kRun;
  const T* upper = x + (plane * kHeight + 2 * row) * kWidth + 2 * column;
  const T* lower = upper + kWidth;

  Run run;
  if constexpr (kWide) {
    const Pack16<T> a = load16_streaming(upper), b = load16_streaming(lower);
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      run.value[i] = from_float<T>(max_nan(max_nan(to_float(a.value[2 * i]), to_float(a.value[2 * i + 1])),
                                           max_nan(to_float(b.value[2 * i]), to_float(b.value[2 * i + 1]))));
    }
  } else {
    run.value[0] = from_float<T>(
        max_nan(max_nan(to_float(upper[0]), to_float(upper[1])), max_nan(to_float(lower[0]), to_float(lower[1]))));
  }
  store_run(y + (plane * kOutHeight + row) * kOutWidth + column, run);
}
