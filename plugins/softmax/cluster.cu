// softmax (see kernel.cu) with a thread block cluster a row, for long rows on sm_90 and newer.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: row.cuh, 4 or 8 blocks a row; the threads hold the row in registers,
// and one barrier of the cluster joins the parts.
// Bytes: x and y once.
#include "softmax/row.cuh"

#define SOFTMAX_CLUSTER(NAME, BLOCKS, THREADS)                                                                 \
  ASSERT_LAUNCH(NAME, THREADS, 0);                                                                             \
  extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS)                         \
      NAME(const softmax::T* __restrict__ x, int rows, softmax::T* __restrict__ y) {                           \
    if constexpr (is_launched(#NAME)) softmax::row_in_registers<BLOCKS, THREADS>(x, y);                        \
  }

SOFTMAX_CLUSTER(softmax_cluster4, 4, 512)
SOFTMAX_CLUSTER(softmax_cluster8, 8, 512)
