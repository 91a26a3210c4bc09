// dense_bias_relu on tensor cores, for fp16 and bfloat16: y = x w^T + bias, then ReLU if ATTR_RELU; sums in float.
//
// x [n, in], w [out, in], bias [out], y [n, out].
//
// Mapping: a block computes kRowTiles * 16 rows and 128 features; warp i computes the 8-feature tiles i, i + kWarps, ... of these, so
// the rows are fetched once into L1 for all warps. Lane (g, t) loads kRun neighbouring elements of its rows (g, g + 8) and of its feature
// (g). They are the operand registers of kRun / 4 products without any exchange, because the order of K follows the loads; so nothing
// goes through shared memory. `dense_bias_relu_tensor` has 8 warps for 16 rows, and few loads in sequence to wait for;
// `dense_bias_relu_tensor_rows32` uses each weight twice, for many rows.
//
// Bytes: w once per row tile, x once per 128 features, from L1 and L2.
// What was measured: docs/kernels/dense_bias_relu.md.
#include "mma.cuh"

using T = TYPE_T;
constexpr int kIn = AXIS_IN, kOut = AXIS_OUT;
constexpr bool kRelu = ATTR_RELU != 0;
constexpr int kBlockOut = 128;
constexpr int kThreads = 256, kThreadsRows32 = 128;

// A lane loads this many elements at a time: 16 bytes where rows have this alignment, else 8 bytes, else four single elements.
constexpr int kRun = kIn % 8 == 0 ? 8 : 4;
constexpr int kWords = kRun / 2;
constexpr int kDepth = 4 * kRun;  // elements of K per load

using Run = Vector<unsigned, kWords>;

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
        run.value[i / 2] |= static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(&element)) << (i % 2 * 16);
      }
    }
  }
  return run;
}

template <int kRowTiles, int kWarps>
__device__ __forceinline__ void dense_by_mma(const T* x, const T* w, const T* bias, int n, T* y) {
  constexpr int kTilesPerWarp = kBlockOut / 8 / kWarps;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int first_row = blockIdx.x * kRowTiles * 16 + g;
  // Rows and features beyond the end are computed from the last one and not written.
  const T* inputs[kRowTiles][2];
  const T* weights[kTilesPerWarp];
#pragma unroll
  for (int i = 0; i < kRowTiles * 2; ++i) inputs[i / 2][i % 2] = x + static_cast<size_t>(min(first_row + i * 8, n - 1)) * kIn;
  const int first_out = blockIdx.y * kBlockOut + warp * 8;
#pragma unroll
  for (int j = 0; j < kTilesPerWarp; ++j) {
    weights[j] = w + static_cast<size_t>(min(first_out + j * kWarps * 8 + g, kOut - 1)) * kIn;
  }

  float sums[kRowTiles][kTilesPerWarp][4] = {};
  constexpr int kUnroll = 8 / (kRowTiles * kTilesPerWarp);
#pragma unroll(kUnroll > 1 ? kUnroll : 1)
  for (int depth = 0; depth < kIn; depth += kDepth) {
    const int column = depth + t * kRun;
    Run a[kRowTiles][2];
#pragma unroll
    for (int i = 0; i < kRowTiles * 2; ++i) a[i / 2][i % 2] = load_run(inputs[i / 2][i % 2], column);
#pragma unroll
    for (int j = 0; j < kTilesPerWarp; ++j) {
      const Run b = load_run(weights[j], column);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int k = 0; k < kWords; k += 2) {
          mma_16x8x16<T>(sums[i][j], a[i][0].value[k], a[i][1].value[k], a[i][0].value[k + 1], a[i][1].value[k + 1], b.value[k],
                         b.value[k + 1]);
        }
      }
    }
  }

#pragma unroll
  for (int j = 0; j < kTilesPerWarp; ++j) {
    const int feature = first_out + j * kWarps * 8 + 2 * t;
    if (feature >= kOut) continue;
    const bool both = feature + 1 < kOut;
    const float offsets[2] = {to_float(bias[feature]), both ? to_float(bias[feature + 1]) : 0.0f};
#pragma unroll
    for (int i = 0; i < kRowTiles * 2; ++i) {
      const int row = first_row + i * 8;
      if (row >= n) continue;
      Vector<T, 2> values;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float value = sums[i / 2][j][i % 2 * 2 + k] + offsets[k];
        values.value[k] = from_float<T>(kRelu ? relu_nan(value) : value);
      }
      T* out = y + static_cast<size_t>(row) * kOut + feature;
      if constexpr (kOut % 2 == 0) {
        store_vector(out, values);
      } else {
        out[0] = values.value[0];
        if (both) out[1] = values.value[1];
      }
    }
  }
}

ASSERT_LAUNCH(dense_bias_relu_tensor, kThreads, 0);
extern "C" __global__ void __launch_bounds__(kThreads)
    dense_bias_relu_tensor(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                           T* __restrict__ y) {
  dense_by_mma<1, kThreads / 32>(x, w, bias, n, y);
}

ASSERT_LAUNCH(dense_bias_relu_tensor_rows32, kThreadsRows32, 0);
extern "C" __global__ void __launch_bounds__(kThreadsRows32)
    dense_bias_relu_tensor_rows32(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                                  T* __restrict__ y) {
  dense_by_mma<2, kThreadsRows32 / 32>(x, w, bias, n, y);
}
