// group_norm: y = act((x - mean) / sqrt(variance + epsilon) * scale + bias), mean and variance of each group of channels of an image; groups
// of any size, any architecture.
//
// x [n, C, S], scale [C], bias [C] -> y [n, C, S]: S pixels, in any number of axes. C is a multiple of the number of groups.
//
// Mapping: a block a group of an image, whose elements lie together; of as many threads as the variant declares. Each warp knows the mean of its
// own elements and the squared distances from it, which the block joins. Bytes: x and y once; of a group of more than 64 elements a thread, what is
// left twice more from L2.
#include "group_norm/group_norm.cuh"

using namespace group_norm;
constexpr int kWarps = LAUNCH_THREADS / 32;
ASSERT_LAUNCH_WHERE(group_norm_row, LAUNCH_THREADS == 256 || LAUNCH_THREADS == 512, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    group_norm_row(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, T* __restrict__ y) {
  wait_for_previous_kernel();
  __shared__ Part parts[kWarps];
  const Group<LAUNCH_THREADS> group(x, blockIdx.x, threadIdx.x);
  const Part part = group.of_warp();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = part;
  __syncthreads();
  group.store(joined<kWarps>({parts[threadIdx.x % kWarps]}), scale, bias, y);
}
