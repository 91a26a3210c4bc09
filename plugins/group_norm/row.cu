// group_norm (see kernel.cu) of groups in the registers of a block.
//
// x [n, C, S], scale [C], bias [C] -> y [n, C, S].
//
// Mapping: a block a group of an image, whose elements lie together; of as many threads as the variant declares. Two sums over the block: the
// mean, then the squared distances from it. Bytes: x and y once.
#include "group_norm/group_norm.cuh"

using namespace group_norm;
ASSERT_LAUNCH_WHERE(group_norm_row, LAUNCH_THREADS == 256 || LAUNCH_THREADS == 512, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    group_norm_row(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, T* __restrict__ y) {
  wait_for_previous_kernel();
  __shared__ float sums[2][LAUNCH_THREADS / 32];
  const RowPacks<T, kLength, LAUNCH_THREADS> packs(x, blockIdx.x, threadIdx.x, 0.0f);
  const float mean = block_sum(sums[0], sum_of(packs)) * (1.0f / kLength);
  const float inverse = inverse_deviation(block_sum(sums[1], squares_of(packs, mean)));
  Normal(scale, bias, blockIdx.x % kGroups, mean, inverse).store(packs, y);
}
