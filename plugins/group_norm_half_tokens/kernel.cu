// group_norm_half_tokens: group_norm_half (see its kernel.cu), whose results are tokens: y [n, H W, C].
//
// x [n, H, W, C], scale [C], bias [C] -> y [n, H W, C], which lies in memory as x does.
//
// Mapping: group_norm_half/slab.cuh, a block a slab. Bytes: x and y once; what the block's registers do not hold of x twice more, from L2.
#include "group_norm_half/slab.cuh"

using namespace group_norm;
ASSERT_LAUNCH(group_norm_half_tokens_block, kThreads, sizeof(Shared<1>));

extern "C" __global__ void __launch_bounds__(kThreads)
    group_norm_half_tokens_block(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  norm_of_slab<1>(x, Nothing{}, scale, bias, y, *reinterpret_cast<Shared<1>*>(shared));
}
