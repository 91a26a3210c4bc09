// group_norm_half_tokens (see kernel.cu) with a thread block cluster a slab of channels of an image; sm_90 and newer.
//
// x [n, H, W, C], scale [C], bias [C] -> y [n, H W, C].
//
// Mapping: group_norm_half/slab.cuh, 8 blocks a slab. Bytes: as in kernel.cu.
#include "group_norm_half/slab.cuh"

using namespace group_norm;
constexpr int kBlocks = 8;
ASSERT_LAUNCH(group_norm_half_tokens_cluster8, kThreads, sizeof(Shared<kBlocks>));

extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads)
    group_norm_half_tokens_cluster8(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  norm_of_slab<kBlocks>(x, Nothing{}, scale, bias, y, *reinterpret_cast<Shared<kBlocks>*>(shared));
}
