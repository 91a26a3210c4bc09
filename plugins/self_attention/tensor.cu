// self_attention on tensor cores: y = softmax(scale q k^T) v, for each head of each window.
//
// x [n, a, r, b, C, 3, H, D] -> y [n, a, r, b, C, H, D]. Mapping and bytes: attention/by_tensor_cores.cuh. Rows: one_tensor.cuh.
constexpr int kMostKeys = 64;  // at a time
#include "attention/by_tensor_cores.cuh"
#include "self_attention/one_tensor.cuh"

ASSERT_LAUNCH_WHERE(self_attention_tensor, LAUNCH_THREADS % 32 == 0, Tile<BlockTeam<LAUNCH_THREADS>>::kSharedBytes);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS, Tile<BlockTeam<LAUNCH_THREADS>>::kBlocks)
    self_attention_tensor(const T* __restrict__ x, int a, int r, int b, int heads, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(128) unsigned char shared[];
  attention_by_tensor_cores<LAUNCH_THREADS, OneTensor<Unmasked>>(shared, {x, {}, a, r, b, heads, y});
}
