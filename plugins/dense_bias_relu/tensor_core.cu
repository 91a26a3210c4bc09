// dense_bias_relu on tensor cores, for fp16 and bfloat16: y = x w^T + bias, then ReLU if ATTR_RELU.
//
// x [n, in], w [out, in], bias [out], y [n, out]; sums in float.
//
// Thread mapping: a block takes kRows rows of x and kBlockOut features; warp i takes the 8-feature tiles i, i + kWarps, ... of
// those, so the rows are fetched once into L1 for all. Lane (g, t) loads kRun neighbouring elements of its rows (g, g + 8) and
// of its features (g), which are the operand registers of kRun / 4 products as they are: K is taken in an order that suits
// the loads, so nothing goes through shared memory.
#include "mma.cuh"

using T = TYPE_T;
constexpr int kIn = AXIS_IN, kOut = AXIS_OUT;
constexpr bool kRelu = ATTR_RELU != 0;
constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kRows = 16, kTilesPerWarp = 4, kBlockOut = kWarps * kTilesPerWarp * 8;

// Elements a lane loads at a time: 16 bytes where rows start so aligned, else 8, else four single elements.
constexpr int kRun = kIn % 8 == 0 ? 8 : 4;
constexpr int kWords = kRun / 2;
constexpr int kDepth = 4 * kRun;  // of K, per load

struct Run {
  unsigned word[kWords];
};

__device__ __forceinline__ Run load_run(const T* row, int column) {
  Run run = {};
  if constexpr (kIn % 4 == 0) {
    if (column < kIn) {
      if constexpr (kRun == 8) *reinterpret_cast<uint4*>(&run) = __ldg(reinterpret_cast<const uint4*>(row + column));
      if constexpr (kRun == 4) *reinterpret_cast<uint2*>(&run) = __ldg(reinterpret_cast<const uint2*>(row + column));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      if (column + i < kIn) {
        const T element = row[column + i];
        run.word[i / 2] |= static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(&element)) << (i % 2 * 16);
      }
    }
  }
  return run;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    dense_bias_relu_tensor(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                           T* __restrict__ y) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int row = blockIdx.x * kRows + g;
  // Rows and features beyond the end are computed from the last one and not written.
  const T* upper = x + static_cast<size_t>(min(row, n - 1)) * kIn;
  const T* lower = x + static_cast<size_t>(min(row + 8, n - 1)) * kIn;
  int first_out[kTilesPerWarp];
  const T* weights[kTilesPerWarp];
#pragma unroll
  for (int j = 0; j < kTilesPerWarp; ++j) {
    first_out[j] = blockIdx.y * kBlockOut + (j * kWarps + warp) * 8;
    weights[j] = w + static_cast<size_t>(min(first_out[j] + g, kOut - 1)) * kIn;
  }

  float sums[kTilesPerWarp][4] = {};
#pragma unroll 2
  for (int depth = 0; depth < kIn; depth += kDepth) {
    const int column = depth + t * kRun;
    const Run a = load_run(upper, column), a_lower = load_run(lower, column);
#pragma unroll
    for (int j = 0; j < kTilesPerWarp; ++j) {
      const Run b = load_run(weights[j], column);
#pragma unroll
      for (int i = 0; i < kWords; i += 2) {
        mma_16x8x16<T>(sums[j], a.word[i], a_lower.word[i], a.word[i + 1], a_lower.word[i + 1], b.word[i], b.word[i + 1]);
      }
    }
  }

#pragma unroll
  for (int j = 0; j < kTilesPerWarp; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int out_row = row + i / 2 * 8, feature = first_out[j] + 2 * t + i % 2;
      if (out_row < n && feature < kOut) {
        const float value = sums[j][i] + to_float(bias[feature]);
        y[static_cast<size_t>(out_row) * kOut + feature] = from_float<T>(kRelu ? relu_nan(value) : value);
      }
    }
  }
}
