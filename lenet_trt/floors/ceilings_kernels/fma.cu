// Chains of multiply-adds in registers: how many a second the float units do.
//
//   v[c] = x[i] + c;  ATTR_STEPS times: v[c] = v[c] * a[i] + x[i];  y[i] = v[0] + ... + v[kChains - 1]
//
// x, a, y [n] float32; a slightly above -1 keeps the values alternating and bounded, so that bits keep changing. A thread has
// kChains chains that do not wait for each other. Operations: 2 * kChains * ATTR_STEPS * n; bytes: 12 n.
#include "common.cuh"

constexpr int kChains = 8;

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    ceiling_fma(const float* __restrict__ x, const float* __restrict__ a, int n, float* __restrict__ y) {
  const long long i = static_cast<long long>(blockIdx.x) * LAUNCH_THREADS + threadIdx.x;
  if (i >= n) return;
  const float add = x[i], factor = a[i];
  float v[kChains];
#pragma unroll
  for (int c = 0; c < kChains; ++c) v[c] = add + c;
#pragma unroll 16
  for (int step = 0; step < ATTR_STEPS; ++step) {
#pragma unroll
    for (int c = 0; c < kChains; ++c) v[c] = fmaf(v[c], factor, add);
  }
  float sum = 0.0f;
#pragma unroll
  for (int c = 0; c < kChains; ++c) sum += v[c];
  y[i] = sum;
}
