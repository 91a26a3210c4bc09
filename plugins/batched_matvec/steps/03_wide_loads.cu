// batched_matvec, step 3: 16-byte loads, and only as many lanes per row as they need: 16 for 64 floats.
//
// This step has a quarter of the load instructions, four times the bytes in flight for each, and four shuffles for the two rows of a warp.
// K must be 1, 2, 4, 8, 16 or 32 packs of 16 bytes.
//
// Grid: ceil(total * lanes / 256) blocks of 256, lanes = K * sizeof(T) / 16.
#include "common.cuh"

using T = TYPE_T;
constexpr int kLength = AXIS_K;
constexpr int kPack = Pack16<T>::kCount;
constexpr int kLanes = kLength / kPack;
static_assert(kLength % kPack == 0 && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0, "K is no power of two of packs");

extern "C" __global__ void batched_matvec_step03(const T* __restrict__ a, const T* __restrict__ x, int outer, int broadcast,
                                                 int inner, int rows, T* __restrict__ y) {
  const int total = outer * broadcast * inner * rows;
  const int lane = threadIdx.x % kLanes, row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes;
  const int safe = min(row, total - 1);  // rows beyond the end repeat the last: all lanes must take part in the shuffles
  const int vector = safe / rows;
  const int x_row = vector / (inner * broadcast) * inner + vector % inner;

  const Pack16<T> left = load16(a + static_cast<size_t>(safe) * kLength + lane * kPack);
  const Pack16<T> right = load16(x + static_cast<size_t>(x_row) * kLength + lane * kPack);
  float sums[1] = {};
#pragma unroll
  for (int i = 0; i < kPack; ++i) sums[0] = fmaf(to_float(left.value[i]), to_float(right.value[i]), sums[0]);
  exchange_sums<1, kLanes / 2>(sums, lane);
  if (lane == 0 && row < total) y[row] = from_float<T>(sums[0]);
}
