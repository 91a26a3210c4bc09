// batched_matmul, step 1: one thread per element of y, the loop of the definition.
//
// Each thread reads a row of a and a column of b, K elements each, and its neighbours read nearly the same: each element of a is asked
// for N times, each element of b M times. Caches answer most of this, but every multiply-add has two loads of 4 bytes, so the loads
// are the limit long before memory is.
//
// Grid: ceil(batch * M * N / 256) blocks of 256.
#include "common.cuh"

using T = TYPE_T;
constexpr int kM = AXIS_M, kN = AXIS_N, kK = AXIS_K_BEFORE_M * AXIS_K_AFTER_M;
// Element (row, k) of a and element (k, column) of b, whether transposed or not.
constexpr int kRowA = AXIS_K_AFTER_M, kStepA = AXIS_K_BEFORE_M == 1 ? 1 : kM;
constexpr int kColumnB = AXIS_K_AFTER_N, kStepB = AXIS_K_BEFORE_N == 1 ? 1 : kN;

extern "C" __global__ void batched_matmul_step01(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  const size_t item = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x, product = item / (kM * kN);
  if (product >= batch) return;
  const int row = item / kN % kM, column = item % kN;
  const T *own_a = a + product * (kM * kK) + row * kRowA, *own_b = b + product * (kK * kN) + column * kColumnB;

  float sum = 0.0f;
  for (int k = 0; k < kK; ++k) sum = fmaf(to_float(own_a[k * kStepA]), to_float(own_b[k * kStepB]), sum);
  y[item] = from_float<T>(ATTR_ALPHA * sum);
}
