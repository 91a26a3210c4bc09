// lstm, whose weights stay in registers and shared memory over all steps; gates are at most as many as threads.
//
// Mapping: kept.cuh. Bytes: the weights once a block, the features and the states once.
#include "lstm/kept.cuh"

constexpr int kThreads = 512, kKept = smaller(kHidden, 64), kShared = kInputs + kHidden - kKept;
ASSERT_LAUNCH(lstm_kept, kThreads, (Memory<1, kShared>::kBytes));
ASSERT_LAUNCH(lstm_kept4, kThreads, (Memory<4, kShared>::kBytes));

extern __shared__ __align__(16) unsigned char shared[];

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    lstm_kept(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ r, const T* __restrict__ b,
              const T* __restrict__ h0, const T* __restrict__ c0, int steps, int n, T* __restrict__ y, T* __restrict__ y_h,
              T* __restrict__ y_c) {
  wait_for_previous_kernel();
  lstm<kThreads, 1, kKept>(x, w, r, b, h0, c0, steps, n, y, y_h, y_c, shared);
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    lstm_kept4(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ r, const T* __restrict__ b,
               const T* __restrict__ h0, const T* __restrict__ c0, int steps, int n, T* __restrict__ y, T* __restrict__ y_h,
               T* __restrict__ y_c) {
  wait_for_previous_kernel();
  lstm<kThreads, 4, kKept>(x, w, r, b, h0, c0, steps, n, y, y_h, y_c, shared);
}
