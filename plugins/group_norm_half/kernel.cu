// group_norm_half: y = act((x - mean) / sqrt(variance + epsilon) * scale + bias), mean and variance of each group of channels of an image, with
// channels last, in 16 bits; images of any size, any architecture.
//
// x [n, H, W, C], scale [C], bias [C] -> y [n, H, W, C]. C is a multiple of 8 and of the number of groups.
//
// Mapping: slab.cuh, a block a slab. Bytes: x and y once; what the block's registers do not hold of x twice more, from L2.
#include "group_norm_half/slab.cuh"

using namespace group_norm;
ASSERT_LAUNCH(group_norm_half_block, kThreads, sizeof(Shared<1>));

extern "C" __global__ void __launch_bounds__(kThreads)
    group_norm_half_block(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  norm_of_slab<1>(x, Nothing{}, scale, bias, y, *reinterpret_cast<Shared<1>*>(shared));
}
