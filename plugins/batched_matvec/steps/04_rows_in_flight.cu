// batched_matvec, step 4: four rows in flight per thread, and loads that do not fill the caches.
//
// Little's law: bandwidth = bytes in flight / latency. A thread issues four independent 16-byte loads before it uses the first. Each byte
// of a is used once, so it is marked streaming and does not push x out of the caches. Then the lanes add up the four sums together: at
// each step a lane gives away half of its rows (exchange_sums), which takes 5 shuffles for 4 rows of 16 lanes, not 16.
//
// What ../kernel.cu adds: any K, rows counted with carries instead of divisions, rows beyond 32 lanes.
//
// Grid: ceil(total * lanes / 1024) blocks of 256, lanes = K * sizeof(T) / 16.
#include "common.cuh"

using T = TYPE_T;
constexpr int kLength = AXIS_K;
constexpr int kPack = Pack16<T>::kCount;
constexpr int kLanes = kLength / kPack;
constexpr int kRows = 4;
static_assert(kLength % kPack == 0 && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0, "K is no power of two of packs");
static_assert(kLanes >= kRows, "fewer lanes than rows");

extern "C" __global__ void batched_matvec_step04(const T* __restrict__ a, const T* __restrict__ x, int outer, int broadcast,
                                                 int inner, int rows, T* __restrict__ y) {
  const int total = outer * broadcast * inner * rows;
  const int lane = threadIdx.x % kLanes, first = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes * kRows;

  Pack16<T> left[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    left[r] = load16_streaming(a + static_cast<size_t>(min(first + r, total - 1)) * kLength + lane * kPack);
  }
  float sums[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int vector = min(first + r, total - 1) / rows;
    const int x_row = vector / (inner * broadcast) * inner + vector % inner;
    const Pack16<T> right = load16(x + static_cast<size_t>(x_row) * kLength + lane * kPack);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[r] = fmaf(to_float(left[r].value[i]), to_float(right.value[i]), sums[r]);
  }
  const int row = first + exchange_sums<kRows, kLanes / 2>(sums, lane);
  if (lane % (kLanes / kRows) == 0 && row < total) y[row] = from_float<T>(sums[0]);
}
