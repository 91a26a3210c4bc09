// global_average_pool: y = the mean of each plane of x.
//
// x [planes, H, W], y [planes]; planes = n * channels.
//
// Mapping: a block a plane, or a warp a group of planes, so that a lane has about eight loads in flight; lanes read
// neighbouring vectors and add by shuffles. Bytes: x once.
// What was measured: docs/kernels/global_average_pool.md.
#include "common.cuh"

using T = TYPE_T;
constexpr int kPlane = AXIS_H * AXIS_W, kThreads = 256, kWarp = 32, kWarps = kThreads / kWarp;
ASSERT_LAUNCH(global_average_pool_warp, kThreads, 0);
ASSERT_LAUNCH(global_average_pool_block, kThreads, 0);

constexpr int kVector = divisor_of(kPlane);  // elements; planes are whole vectors
constexpr int kVectors = kPlane / kVector, kFlight = 8;
constexpr int kLoads = ceil_div(kVectors, kWarp);  // of a lane
constexpr int kGroup = kFlight / (kLoads < kFlight ? kLoads : kFlight);  // planes of a warp

// Adds to sums[g] every kStep-th vector of plane g, from vector `first` on.
template <int kPlanes, int kStep>
__device__ __forceinline__ void add_vectors(const T* __restrict__ planes, int count, int first, float* sums) {
  constexpr int kSteps = kFlight / kPlanes;
  for (int from = first; from < kVectors; from += kStep * kSteps) {
    Vector<T, kVector> vectors[kPlanes][kSteps];
#pragma unroll
    for (int g = 0; g < kPlanes; ++g) {
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        const int at = from + i * kStep;
        vectors[g][i] = Vector<T, kVector>{};
        if (at < kVectors && g < count) {
          vectors[g][i] = reinterpret_cast<const Vector<T, kVector>*>(planes + static_cast<size_t>(g) * kPlane)[at];
        }
      }
    }
#pragma unroll
    for (int g = 0; g < kPlanes; ++g) {
#pragma unroll
      for (int i = 0; i < kSteps * kVector; ++i) sums[g] += to_float(vectors[g][i / kVector].value[i % kVector]);
    }
  }
}

__device__ __forceinline__ T mean_from_sum(float sum) { return from_float<T>(sum / static_cast<float>(kPlane)); }

extern "C" __global__ void __launch_bounds__(kThreads)
    global_average_pool_warp(const T* __restrict__ x, int planes, T* __restrict__ y) {
  wait_for_previous_kernel();
  const int lane = threadIdx.x % kWarp;
  const long long first = (blockIdx.x * static_cast<long long>(kWarps) + threadIdx.x / kWarp) * kGroup;
  if (first >= planes) return;
  float sums[kGroup] = {};
  add_vectors<kGroup, kWarp>(x + first * kPlane, static_cast<int>(planes - first), lane, sums);
  const int own = exchange_sums<kGroup, kWarp / 2>(sums, lane);
  if (lane % (kWarp / kGroup) == 0 && first + own < planes) y[first + own] = mean_from_sum(sums[0]);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    global_average_pool_block(const T* __restrict__ x, int, T* __restrict__ y) {
  wait_for_previous_kernel();
  __shared__ float sums[kWarps];
  float sum[1] = {};
  add_vectors<1, kThreads>(x + static_cast<size_t>(blockIdx.x) * kPlane, 1, threadIdx.x, sum);
  exchange_sums<1, kWarp / 2>(sum, 0);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = sum[0];
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) total += sums[i];
    y[blockIdx.x] = mean_from_sum(total);
  }
}
