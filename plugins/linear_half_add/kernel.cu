// linear_half_add by plain multiply-adds, for GPUs other than Hopper: y = act(x w^T + bias) + other for each pixel, in fp16 or bfloat16.
//
// x [n, H, W, I], other and y [n, H, W, O], weights (w, packed: linear/packed.cuh), bias [O].
//
// Mapping: a thread computes 8 neighbouring outputs of a row. Bytes: x and the weights from L1 or L2, once for each thread; y and other once.
#include "linear_half_add/layer.cuh"

#include "linear_half/plain.cuh"

constexpr int kDirectThreads = 128;
ASSERT_LAUNCH(linear_half_add_direct, kDirectThreads, 0);

extern "C" __global__ void __launch_bounds__(kDirectThreads)
    linear_half_add_direct(const T* __restrict__ x, const T* __restrict__ other, const T* __restrict__ weights, const T* __restrict__ bias, int n,
                           T* __restrict__ y) {
  wait_for_previous_kernel();
  constexpr int kEights = kOutputs / kEight;
  const int unit = blockIdx.x * kDirectThreads + threadIdx.x, row = unit / kEights, first = unit % kEights * kEight;
  if (row >= n) return;
  const Layer layer{{x, weights, bias, n, y, other}};
  const T* const of_x = layer.row(row);
  float sums[kEight] = {};
  plain_sums(sums, weights, first, [&](int input) { return load_vector<kEight>(of_x + input); });
  layer.finish(sums, 0, row, first);
}
