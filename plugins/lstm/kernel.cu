// lstm for weights of any size: they are read from global memory at each step, and stay in L2.
//
// Mapping: lstm.cuh. Bytes: the weights once a step and block, from L2; the features and the states once.
#include "lstm/lstm.cuh"

constexpr int kThreads = 1024;
ASSERT_LAUNCH(lstm_direct, kThreads, (Memory<1, 0>::kBytes));

extern __shared__ __align__(16) unsigned char shared[];

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    lstm_direct(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ r, const T* __restrict__ b,
                const T* __restrict__ h0, const T* __restrict__ c0, int steps, int n, T* __restrict__ y, T* __restrict__ y_h,
                T* __restrict__ y_c) {
  lstm<kThreads, 1, -1>(x, w, r, b, h0, c0, steps, n, y, y_h, y_c, shared);
}
