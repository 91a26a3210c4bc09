// matmul_act_rowsum: y = act(x @ w), s = the sum of each row of x. Made to exercise the mechanism, not to be fast.
//
// x [n, C] T, wt [K, C] float (w, packed), y [n, K] T, s [n] T; act is nothing, ReLU or negation.
#include "common.cuh"

using T = TYPE_T;
constexpr int kIn = AXIS_C, kOut = AXIS_K, kThreads = 64;
ASSERT_LAUNCH(matmul_act_rowsum_plain, kThreads, 0);
ASSERT_LAUNCH(matmul_act_rowsum_shared, kThreads, kIn * kOut * 4);

__device__ __forceinline__ float activate(float value) {
  if constexpr (ATTR_ACTIVATION == 1) return relu_nan(value);
  if constexpr (ATTR_ACTIVATION == 2) return -value;
  return value;
}

template <typename Load>
__device__ __forceinline__ void one_row(const T* x, Load weight, int row, T* y, T* s) {
  for (int k = threadIdx.x; k < kOut; k += kThreads) {
    float sum = 0.0f;
    for (int c = 0; c < kIn; ++c) sum = fmaf(to_float(x[row * kIn + c]), weight(k * kIn + c), sum);
    y[row * kOut + k] = from_float<T>(activate(sum));
  }
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int c = 0; c < kIn; ++c) sum += to_float(x[row * kIn + c]);
    s[row] = from_float<T>(sum);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    matmul_act_rowsum_plain(const T* __restrict__ x, const float* __restrict__ wt, int n, T* __restrict__ y,
                            T* __restrict__ s) {
  one_row(x, [wt](int i) { return wt[i]; }, blockIdx.x, y, s);
}

// All weights in (more than 48 KB of) dynamic shared memory; two rows a block.
extern "C" __global__ void __launch_bounds__(kThreads)
    matmul_act_rowsum_shared(const T* __restrict__ x, const float* __restrict__ wt, int n, int rows_a_block,
                             T* __restrict__ y, T* __restrict__ s) {
  extern __shared__ float weights[];
  for (int i = threadIdx.x; i < kIn * kOut; i += kThreads) weights[i] = wt[i];
  __syncthreads();
  for (int i = 0; i < rows_a_block; ++i) {
    const int row = blockIdx.x * rows_a_block + i;
    if (row < n) one_row(x, [](int index) { return weights[index]; }, row, y, s);
  }
}
