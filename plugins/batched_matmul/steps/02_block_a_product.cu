// batched_matmul, step 2: one block per product, which first copies both matrices to shared memory.
//
// Now every element comes from memory once, in the order in which it lies there. But a multiply-add still has two loads, now from
// shared memory. And where a product is small, most threads of its block have nothing to do: 8x8 has 64 elements.
//
// Grid: batch blocks of 128.
#include "common.cuh"

using T = TYPE_T;
constexpr int kM = AXIS_M, kN = AXIS_N, kK = AXIS_K_BEFORE_M * AXIS_K_AFTER_M;
constexpr int kRowA = AXIS_K_AFTER_M, kStepA = AXIS_K_BEFORE_M == 1 ? 1 : kM;
constexpr int kColumnB = AXIS_K_AFTER_N, kStepB = AXIS_K_BEFORE_N == 1 ? 1 : kN;
constexpr int kThreads = 128;

extern "C" __global__ void batched_matmul_step02(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  __shared__ T own_a[kM * kK], own_b[kK * kN];
  const size_t product = blockIdx.x;
  for (int i = threadIdx.x; i < kM * kK; i += kThreads) own_a[i] = a[product * (kM * kK) + i];
  for (int i = threadIdx.x; i < kK * kN; i += kThreads) own_b[i] = b[product * (kK * kN) + i];
  __syncthreads();
  for (int i = threadIdx.x; i < kM * kN; i += kThreads) {
    const int row = i / kN, column = i % kN;
    float sum = 0.0f;
    for (int k = 0; k < kK; ++k) {
      sum = fmaf(to_float(own_a[row * kRowA + k * kStepA]), to_float(own_b[column * kColumnB + k * kStepB]), sum);
    }
    y[product * (kM * kN) + i] = from_float<T>(ATTR_ALPHA * sum);
  }
}
