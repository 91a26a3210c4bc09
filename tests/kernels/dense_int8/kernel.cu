// dense_int8: y = saturate(round(act(x_scale w_scale[o] (x . w[o]) + bias[o]) / y_scale)). Made to exercise the mechanism.
//
// x [n, IN] int8, w [OUT, IN] int8, y [n, OUT] int8; scales and bias float. A thread an output. Products are summed in
// 32 bits, exactly; scaling, bias and rounding are the float operations of the reference, one by one and in its order.
#include "common.cuh"

constexpr int kIn = AXIS_IN, kOut = AXIS_OUT, kThreads = 128;
ASSERT_LAUNCH(dense_int8_dp4a, kThreads, 0);

__device__ __forceinline__ int product(const signed char* __restrict__ x, const signed char* __restrict__ w) {
  int sum = 0;
  if constexpr (kIn % 4 == 0) {
    for (int i = 0; i < kIn / 4; ++i) {
      sum = __dp4a(reinterpret_cast<const int*>(x)[i], reinterpret_cast<const int*>(w)[i], sum);
    }
  } else {
    for (int i = 0; i < kIn; ++i) sum += x[i] * w[i];
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    dense_int8_dp4a(const signed char* __restrict__ x, const float* __restrict__ x_scale,
                    const signed char* __restrict__ w, const float* __restrict__ w_scale,
                    const float* __restrict__ bias, const float* __restrict__ y_scale, int n,
                    signed char* __restrict__ y) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= static_cast<long long>(n) * kOut) return;
  const long long row = i / kOut;
  const int o = static_cast<int>(i - row * kOut);
  const float sum = static_cast<float>(product(x + row * kIn, w + static_cast<long long>(o) * kIn));
  float value = __fadd_rn(__fmul_rn(sum, __fmul_rn(*x_scale, w_scale[o])), bias[o]);
  if (ATTR_RELU) value = fmaxf(value, 0.0f);
  const float rounded = rintf(__fdiv_rn(value, *y_scale));  // half to even
  y[i] = static_cast<signed char>(fminf(fmaxf(rounded, -128.0f), 127.0f));
}
