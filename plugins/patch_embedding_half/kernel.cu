// patch_embedding_half by plain multiply-adds, for GPUs other than Hopper: y = w x + bias for each patch x of an image, in fp16 or bfloat16.
//
// x [n, C, H, W], weights (w, packed: linear/packed.cuh), bias [K], y [n, H / P, W / P, K].
//
// Mapping: a thread computes 8 neighbouring outputs of a patch. Bytes: x and the weights from L1 or L2, once for each thread; y once.
#include "patch_embedding/patches.cuh"

#include "linear_half/outputs.cuh"
#include "linear_half/plain.cuh"

constexpr int kDirectThreads = 128;
ASSERT_LAUNCH(patch_embedding_half_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    patch_embedding_half_direct(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int patches, T* __restrict__ y) {
  wait_for_previous_kernel();
  constexpr int kEights = kOutputs / kEight;
  const int unit = blockIdx.x * kDirectThreads + threadIdx.x, patch = unit / kEights, first = unit % kEights * kEight;
  if (patch >= patches) return;
  const Patch of_x = patch_of(x, patch);
  float sums[kEight] = {};
  plain_sums(sums, weights, first, [&](int input) {
    Vector<T, kEight> eight;
#pragma unroll
    for (int i = 0; i < kEight; i += kRun) {
      const Vector<T, kRun> run = load_vector<kRun>(of_x.first + within_patch(input + i));
#pragma unroll
      for (int j = 0; j < kRun; ++j) eight.value[i + j] = run.value[j];
    }
    return eight;
  });
  Outputs{x, weights, bias, patches, y}.finish(sums, 0, patch, first);
}
