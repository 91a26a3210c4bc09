// group_norm: y = act((x - mean) / sqrt(variance + epsilon) * scale + bias), mean and variance of each group of channels of an image; groups
// of any size, any architecture.
//
// x [n, C, S], scale [C], bias [C] -> y [n, C, S]: S pixels, in any number of axes. C is a multiple of the number of groups.
//
// Mapping: a block a group of an image, whose elements lie together. It reads them three times: for the mean, for the squared distances from
// it, and to write; the second and third time from L2, as the groups in work are few. The other variants keep a group in registers.
// Bytes: x and y once from DRAM, x twice more from L2.
#include "group_norm/group_norm.cuh"

using namespace group_norm;
constexpr int kThreads = 512, kWarps = kThreads / 32, kAhead = 4;  // packs on the way for each thread
using Packs = RowPacks<T, kLength, kThreads, kAhead>;
ASSERT_LAUNCH(group_norm_block, kThreads, 0);

// Adds add(packs) over the group; every thread gets the sum.
template <typename Add>
__device__ __forceinline__ float sum_of_group(const T* __restrict__ x, float (&sums)[kWarps], Add add) {
  float sum = 0.0f;
  for (int begin = threadIdx.x; begin < Packs::kPacks; begin += kAhead * kThreads) sum += add(Packs(x, blockIdx.x, begin, 0.0f));
  return block_sum(sums, sum);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    group_norm_block(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, T* __restrict__ y) {
  wait_for_previous_kernel();
  __shared__ float sums[2][kWarps];
  const float mean = sum_of_group(x, sums[0], [](const Packs& packs) { return sum_of(packs); }) * (1.0f / kLength);
  const float squares = sum_of_group(x, sums[1], [&](const Packs& packs) { return squares_of(packs, mean); });
  const Normal normal(scale, bias, blockIdx.x % kGroups, mean, inverse_deviation(squares));
  for (int begin = threadIdx.x; begin < Packs::kPacks; begin += kAhead * kThreads) normal.store(Packs(x, blockIdx.x, begin, 0.0f), y);
}
