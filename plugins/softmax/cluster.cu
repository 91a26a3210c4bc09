// softmax (see kernel.cu) with a thread block cluster a row, for long rows on sm_90 and newer.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: row.cuh, 8 blocks a row; the threads hold the row in registers, and one exchange in the cluster joins the parts.
// Bytes: x and y once.
#include "softmax/row.cuh"

using softmax::T;
constexpr int kBlocks = 8;
constexpr int kThreads = 256;
ASSERT_LAUNCH(softmax_cluster, kThreads, 0);

extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads)
    softmax_cluster(const T* __restrict__ x, int rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  softmax::row_in_registers<kBlocks, kThreads>(x, y);
}
