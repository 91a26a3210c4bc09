// softmax (see kernel.cu) with a thread block cluster a row, for long rows on sm_90 and newer.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: row.cuh, 4096 threads a row, in blocks of as many as the variant declares. The threads hold the row in registers,
// and one barrier of the cluster joins the parts.
// Bytes: x and y once.
#include "softmax/row.cuh"

using softmax::T;
constexpr int kBlocks = 4096 / LAUNCH_THREADS;
ASSERT_LAUNCH(softmax_cluster, LAUNCH_THREADS, 0);

extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(LAUNCH_THREADS)
    softmax_cluster(const T* __restrict__ x, int rows, T* __restrict__ y) {
  softmax::row_in_registers<kBlocks, LAUNCH_THREADS>(x, y);
}
