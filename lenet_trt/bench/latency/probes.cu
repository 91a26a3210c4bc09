// Kernels that do a part of what a request makes the GPU do, so that the parts can be timed: x [n] -> y [10].
//
// latency_signal stores numbers at once. latency_read first reads all of x, a block of 256 threads, 16 bytes a load.

#include "common.cuh"

constexpr int kThreads = 256;
constexpr int kAnswers = 10;

extern "C" __global__ void __launch_bounds__(kThreads) latency_signal(const float* x, int n, float* y) {
  if (threadIdx.x < kAnswers) y[threadIdx.x] = static_cast<float>(threadIdx.x);
}

extern "C" __global__ void __launch_bounds__(kThreads) latency_read(const float* x, int n, float* y) {
  float most = 0.0f;
  for (int at = 4 * threadIdx.x; at + 3 < n; at += 4 * kThreads) {
    const float4 quad = *reinterpret_cast<const float4*>(x + at);
    most = fmaxf(most, fmaxf(fmaxf(quad.x, quad.y), fmaxf(quad.z, quad.w)));
  }
  const bool above = __syncthreads_or(most > 0.5f);
  if (threadIdx.x < kAnswers) y[threadIdx.x] = static_cast<float>(threadIdx.x) + (above ? 1.0f : 0.0f);
}
