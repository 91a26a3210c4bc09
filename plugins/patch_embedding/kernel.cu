// patch_embedding by plain multiply-adds, for GPUs before Hopper: y = w x + bias for each patch x of an image, in floats.
//
// x [n, C, H, W], weights and scales (w, packed: linear/layer.cuh), bias [K], y [n, H / P, W / P, K].
//
// Mapping: a thread computes 8 neighbouring outputs of a patch. Bytes: x and the weights from L1 or L2, once for each thread; y once.
#include "patch_embedding/patches.cuh"

#include "linear/layer.cuh"

constexpr int kDirectThreads = 128;
ASSERT_LAUNCH(patch_embedding_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    patch_embedding_direct(const T* __restrict__ x, const __half* __restrict__ weights, const T* __restrict__ scales, const T* __restrict__ bias,
                           int patches, T* __restrict__ y) {
  wait_for_previous_kernel();
  constexpr int kEights = kOutputs / kEight;
  const int unit = blockIdx.x * kDirectThreads + threadIdx.x, patch = unit / kEights, first = unit % kEights * kEight;
  if (patch >= patches) return;
  float sums[kEight] = {};
  plain_sums(sums, patch_of(x, patch), weights, scales, first);
  T* to = y + (static_cast<size_t>(patch) * kOutputs + first);
#pragma unroll
  for (int i = 0; i < kEight; ++i) to[i] = sums[i] + bias[first + i];
}
