// dense_int8: y = cut(round(act(x_scale w_scale[o] (x . w[o]) + bias[o]) / y_scale)), products of int8 on tensor cores.
//
// x [n, IN] int8, w [OUT, IN] int8, scales and bias float -> y [n, OUT] int8.
//
// Mapping. few_rows: the weights are the 16-row operand, rows of x the columns. The order of the inputs within a product is free: a lane
// takes 16 bytes of a row of w and of x at once, for two products. A block has 8 rows x 16 outputs, its warps share the inputs and add
// their sums. any_size: a thread an output, for rows that are not aligned to 16 bytes. For many rows: staged.cu.
// A sum is exact; it is multiplied and added to with one rounding, then rounded half to even and cut.
//
// Bytes: x once for each 16 outputs, w once for each 8 rows, from L2; y once.
#include "dense_int8/layer.cuh"

namespace dense_int8 {

using namespace int8;

constexpr int kLanes = 32, kThreads = 128, kWarps = kThreads / kLanes;
constexpr int kTileOutputs = 16, kColumns = 8, kPiece = 16;
constexpr int kStepInputs = 4 * kPiece;  // four lanes a row; two products
constexpr int kSteps = ceil_div(kIn, kStepInputs);

// 16 bytes of a row, zeros beyond the last row or input.
__device__ __forceinline__ uint4 load_piece(const signed char* matrix, int row, int rows, int k) {
  if (row >= rows || k >= kIn) return make_uint4(0, 0, 0, 0);
  return __ldg(reinterpret_cast<const uint4*>(matrix + static_cast<long long>(row) * kIn + k));
}

// 16 outputs x 64 inputs of w times 64 inputs x 8 rows of x.
__device__ __forceinline__ void multiply_step(int (&sum)[4], const uint4& low, const uint4& high, const uint4& x) {
  multiply_add(sum, low.x, high.x, low.y, high.y, x.x, x.y);
  multiply_add(sum, low.z, high.z, low.w, high.w, x.z, x.w);
}

}  // namespace dense_int8

ASSERT_LAUNCH(dense_int8_few_rows, dense_int8::kThreads, 0);
extern "C" __global__ void __launch_bounds__(dense_int8::kThreads)
    dense_int8_few_rows(const signed char* __restrict__ x, const float* __restrict__ x_scale, const signed char* __restrict__ w,
                        const float* __restrict__ w_scale, const float* __restrict__ bias, const float* __restrict__ y_scale, int n,
                        signed char* __restrict__ y) {
  wait_for_previous_kernel();
  using namespace dense_int8;
  __shared__ int sums[kWarps][kColumns][kTileOutputs];
  const int thread = threadIdx.x, lane = thread % kLanes, warp = thread / kLanes;
  const long long first = static_cast<long long>(blockIdx.x) * kColumns;
  const int rows = static_cast<int>(n - first < kColumns ? n - first : kColumns);
  const int output = blockIdx.y * kTileOutputs + thread % kTileOutputs, row = thread / kTileOutputs;
  x += first * kIn;
  y += first * kOut;
  const Scale scale = scale_of(output, kOut, x_scale, w_scale, bias, y_scale);

  int sum[4] = {};
#pragma unroll 4
  for (int step = warp; step < kSteps; step += kWarps) {
    const int k = step * kStepInputs + lane % 4 * kPiece, o = blockIdx.y * kTileOutputs + lane / 4;
    multiply_step(sum, load_piece(w, o, kOut, k), load_piece(w, o + 8, kOut, k), load_piece(x, lane / 4, rows, k));
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[warp][lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = sum[i];
  __syncthreads();
  int total = 0;
#pragma unroll
  for (int part = 0; part < kWarps; ++part) total += sums[part][row][thread % kTileOutputs];
  if (row < rows && output < kOut) y[row * kOut + output] = static_cast<signed char>(requantized(total, scale));
}

ASSERT_LAUNCH(dense_int8_any_size, dense_int8::kThreads, 0);
extern "C" __global__ void __launch_bounds__(dense_int8::kThreads)
    dense_int8_any_size(const signed char* __restrict__ x, const float* __restrict__ x_scale, const signed char* __restrict__ w,
                        const float* __restrict__ w_scale, const float* __restrict__ bias, const float* __restrict__ y_scale, int n,
                        signed char* __restrict__ y) {
  wait_for_previous_kernel();
  using namespace dense_int8;
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= static_cast<long long>(n) * kOut) return;
  const long long row = i / kOut;
  const int o = static_cast<int>(i - row * kOut);
  x += row * kIn;
  w += static_cast<long long>(o) * kIn;
  int sum = 0;
  if constexpr (kIn % 4 == 0) {
    for (int k = 0; k < kIn; k += 4) sum = __dp4a(*reinterpret_cast<const int*>(x + k), *reinterpret_cast<const int*>(w + k), sum);
  } else {
    for (int k = 0; k < kIn; ++k) sum += x[k] * w[k];
  }
  y[i] = static_cast<signed char>(requantized(sum, scale_of(o, kOut, x_scale, w_scale, bias, y_scale)));
}
