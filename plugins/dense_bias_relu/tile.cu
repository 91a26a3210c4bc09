// dense_bias_relu by register tiles of multiply-adds, for many rows: y = x w^T + bias, then ReLU if ATTR_RELU.
//
// x [n, in], w [out, in], bias [out], y [n, out].
//
// Mapping: a block computes kTileRows x kTileOut of y, and a thread kThreadRows x kThreadOut of these in registers: 32 multiply-adds for
// three 16-byte loads from shared memory. x and w go to shared memory kDepth columns at a time, transposed so that the rows of a thread
// lie side by side; meanwhile the next columns are loaded into registers.
//
// Bytes: x once per kTileOut features, w once per kTileRows rows.
// What was measured: docs/kernels/dense_bias_relu.md.
#include "common.cuh"

using T = TYPE_T;
constexpr int kIn = AXIS_IN, kOut = AXIS_OUT;
constexpr bool kRelu = ATTR_RELU != 0;
constexpr int kTileRows = 128, kTileOut = 32, kDepth = 16;
constexpr int kThreadRows = 8, kThreadOut = 4;
constexpr int kThreads = kTileRows / kThreadRows * (kTileOut / kThreadOut);
ASSERT_LAUNCH(dense_bias_relu_tile, kThreads, 0);
constexpr int kPad = 4;  // keeps rows 16-byte aligned and spreads the transposing stores over the banks

constexpr int kRowsPass = kThreads / (kDepth / 4);  // rows that all threads fetch at a time, four columns each
constexpr int kRunsX = kTileRows / kRowsPass, kRunsW = kTileOut / kRowsPass;

using Run = Vector<float, 4>;

// Four columns of one row; zero beyond the matrix.
__device__ __forceinline__ Run load_run(const T* matrix, int row, int rows, int column) {
  Run run = {};
  if (row >= rows) return run;
  const T* from = matrix + static_cast<size_t>(row) * kIn + column;
  if constexpr (kIn % 4 == 0 && sizeof(T) == 4) {
    if (column < kIn) *reinterpret_cast<uint4*>(&run) = __ldg(reinterpret_cast<const uint4*>(from));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (column + i < kIn) run.value[i] = to_float(from[i]);
    }
  }
  return run;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    dense_bias_relu_tile(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                         T* __restrict__ y) {
  wait_for_previous_kernel();
  __shared__ alignas(16) float tile_x[kDepth][kTileRows + kPad];
  __shared__ alignas(16) float tile_w[kDepth][kTileOut + kPad];
  const int first_row = blockIdx.x * kTileRows, first_out = blockIdx.y * kTileOut;
  const int fetch_row = threadIdx.x / (kDepth / 4), fetch_column = threadIdx.x % (kDepth / 4) * 4;
  const int row = threadIdx.x / (kTileOut / kThreadOut) * kThreadRows;
  const int out = threadIdx.x % (kTileOut / kThreadOut) * kThreadOut;

  Run next_x[kRunsX], next_w[kRunsW];
  auto fetch = [&](int depth) {
#pragma unroll
    for (int i = 0; i < kRunsX; ++i) next_x[i] = load_run(x, first_row + fetch_row + i * kRowsPass, n, depth + fetch_column);
#pragma unroll
    for (int i = 0; i < kRunsW; ++i) next_w[i] = load_run(w, first_out + fetch_row + i * kRowsPass, kOut, depth + fetch_column);
  };
  fetch(0);

  float sums[kThreadRows][kThreadOut] = {};
#pragma unroll 1
  for (int depth = 0; depth < kIn; depth += kDepth) {
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#pragma unroll
      for (int i = 0; i < kRunsX; ++i) tile_x[fetch_column + k][fetch_row + i * kRowsPass] = next_x[i].value[k];
#pragma unroll
      for (int i = 0; i < kRunsW; ++i) tile_w[fetch_column + k][fetch_row + i * kRowsPass] = next_w[i].value[k];
    }
    __syncthreads();
    if (depth + kDepth < kIn) fetch(depth + kDepth);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float a[kThreadRows], b[kThreadOut];
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) a[i] = tile_x[k][row + i];
#pragma unroll
      for (int j = 0; j < kThreadOut; ++j) b[j] = tile_w[k][out + j];
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadOut; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
      }
    }
  }

#pragma unroll
  for (int j = 0; j < kThreadOut; ++j) {
    const int feature = first_out + out + j;
    if (feature >= kOut) break;
    const float offset = to_float(bias[feature]);
#pragma unroll
    for (int i = 0; i < kThreadRows; ++i) {
      if (first_row + row + i >= n) break;
      const float value = sums[i][j] + offset;
      y[static_cast<size_t>(first_row + row + i) * kOut + feature] = from_float<T>(kRelu ? relu_nan(value) : value);
    }
  }
}
