// linear by plain multiply-adds, for GPUs before Hopper: y = act(x w^T + bias), in floats.
//
// x [n, I], weights and scales (w, packed: layer.cuh), bias [O], y [n, O].
//
// Mapping: a thread computes 8 neighbouring outputs of a row. Bytes: x and the weights from L1 or L2, once for each thread; y once.
#include "linear/sizes.cuh"

#include "linear/layer.cuh"

constexpr int kDirectThreads = 128;
ASSERT_LAUNCH(linear_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    linear_direct(const T* __restrict__ x, const __half* __restrict__ weights, const T* __restrict__ scales, const T* __restrict__ bias,
                  int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  constexpr int kEights = kOutputs / kEight;
  const int unit = blockIdx.x * kDirectThreads + threadIdx.x, row = unit / kEights, first = unit % kEights * kEight;
  if (row >= n) return;
  float sums[kEight] = {};
  plain_sums(sums, x + static_cast<size_t>(row) * kInputs, weights, scales, first);
  T* to = y + (static_cast<size_t>(row) * kOutputs + first);
#pragma unroll
  for (int i = 0; i < kEight; ++i) to[i] = activate<kActivation>(sums[i] + bias[first + i]);
}
