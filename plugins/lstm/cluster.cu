// lstm on sm_90, whose weights stay in the registers of a cluster of blocks: an entry for each number of blocks and of sequences.
//
// Mapping and bytes: lstm/cluster.cuh.
#include "lstm/cluster.cuh"

#define BY_CLUSTER(entry, blocks, rows)                                                                                     \
  ASSERT_LAUNCH(entry, (Division<blocks, rows>::kThreads), (Division<blocks, rows>::kBytes));                               \
  extern "C" __global__ void __cluster_dims__(blocks, 1, 1) __launch_bounds__(Division<blocks, rows>::kThreads, 1)          \
      entry(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ r, const T* __restrict__ b,             \
            const T* __restrict__ h0, const T* __restrict__ c0, int steps, int n, T* __restrict__ y, T* __restrict__ y_h,   \
            T* __restrict__ y_c) {                                                                                          \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                           \
    wait_for_previous_kernel();                                                                                             \
    extern __shared__ __align__(16) unsigned char shared[];                                                                 \
    lstm_by_cluster<blocks, rows>(x, w, r, b, h0, c0, steps, n, y, y_h, y_c, shared);                                       \
  }
BY_CLUSTER(lstm_by1, 1, 1)
BY_CLUSTER(lstm_by1_rows4, 1, 4)
BY_CLUSTER(lstm_by2, 2, 1)
BY_CLUSTER(lstm_by2_rows4, 2, 4)
BY_CLUSTER(lstm_by8, 8, 1)
BY_CLUSTER(lstm_by8_rows4, 8, 4)
