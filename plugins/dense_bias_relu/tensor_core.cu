// dense_bias_relu on tensor cores without shared memory, for fp16: y = x w^T + bias, then ReLU if ATTR_RELU; sums in float.
//
// x [n, in], w [out, in], bias [out], y [n, out].
//
// Mapping: a block computes 16 rows and 128 features; warp i computes the 8-feature tiles i, i + kWarps, ... of these, so the rows are
// fetched once into L1 for all warps. Lane (g, t) loads kRun neighbouring elements of its rows (g, g + 8) and of its feature (g). They
// are the operand registers of kRun / 4 products without any exchange, because the order of K follows the loads. For sm_75, and for rows
// of an odd number of elements, which staged.cu does not take.
//
// Bytes: w once per 16 rows, x once per 128 features, from L1 and L2.
// What was measured: docs/kernels/dense_bias_relu.md.
#include "mma.cuh"

using T = TYPE_T;
constexpr int kIn = AXIS_IN, kOut = AXIS_OUT;
constexpr bool kRelu = ATTR_RELU != 0;
constexpr int kBlockRows = 16, kBlockOut = 128;
constexpr int kThreads = 256, kWarps = kThreads / 32, kTilesPerWarp = kBlockOut / 8 / kWarps;

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

ASSERT_LAUNCH(dense_bias_relu_tensor, kThreads, 0);
extern "C" __global__ void __launch_bounds__(kThreads)
    dense_bias_relu_tensor(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                           T* __restrict__ y) {
  wait_for_previous_kernel();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int first_row = blockIdx.x * kBlockRows + g;
  // Rows and features beyond the end are computed from the last one and not written.
  const T* inputs[2];
  const T* weights[kTilesPerWarp];
#pragma unroll
  for (int i = 0; i < 2; ++i) inputs[i] = x + static_cast<size_t>(min(first_row + i * 8, n - 1)) * kIn;
  const int first_out = blockIdx.y * kBlockOut + warp * 8;
#pragma unroll
  for (int j = 0; j < kTilesPerWarp; ++j) {
    weights[j] = w + static_cast<size_t>(min(first_out + j * kWarps * 8 + g, kOut - 1)) * kIn;
  }

  float sums[kTilesPerWarp][4] = {};
#pragma unroll(8 / kTilesPerWarp)
  for (int depth = 0; depth < kIn; depth += kDepth) {
    const int column = depth + t * kRun;
    const Run upper = load_run(inputs[0], column), lower = load_run(inputs[1], column);
#pragma unroll
    for (int j = 0; j < kTilesPerWarp; ++j) {
      const Run b = load_run(weights[j], column);
#pragma unroll
      for (int k = 0; k < kWords; k += 2) {
        mma_16x8x16<T>(sums[j], upper.value[k], lower.value[k], upper.value[k + 1], lower.value[k + 1], b.value[k], b.value[k + 1]);
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
    for (int i = 0; i < 2; ++i) {
      const int row = first_row + i * 8;
      if (row >= n) continue;
      Vector<T, 2> values;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float value = sums[j][i * 2 + k] + offsets[k];
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
