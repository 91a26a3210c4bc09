// dense_bias_relu: y = x w^T + bias, then ReLU if ATTR_RELU. For one row, and for few to medium numbers of rows.
//
// x [n, in], w [out, in] (torch's layout; ONNX Gemm with transB = 1), bias [out], y [n, out].
//
// Mapping: `dense_bias_relu_by4`: a warp computes four features of kRows rows of x. Its lanes lie side by side along `in`, so that w and x
// are read coalesced; then the lanes exchange sums. Warps are independent. `dense_bias_relu_vector`, for n = 1: a block computes four
// features; its threads lie side by side along `in`, so that a layer of few features still has many loads under way.
//
// Bytes: w once per kRows rows, x once per four features, from L1 and L2; for many rows staged.cu, tile.cu or tensor_core.cu is faster.
// What was measured: docs/kernels/dense_bias_relu.md.
#include "common.cuh"

using T = TYPE_T;
constexpr int kIn = AXIS_IN, kOut = AXIS_OUT;
constexpr bool kRelu = ATTR_RELU != 0;
constexpr int kWarps = 4, kThreads = kWarps * 32;
ASSERT_LAUNCH(dense_bias_relu_vector, kThreads, 0);
ASSERT_LAUNCH(dense_bias_relu_by4, kThreads, 0);
constexpr int kRows = 8, kFeatures = 4;
constexpr int kPack = kIn % Pack16<T>::kCount == 0 ? Pack16<T>::kCount : 1;  // elements a lane loads at a time

using PackOfRow = Vector<T, kPack>;

__device__ __forceinline__ PackOfRow load_pack(const T* address) {
  PackOfRow result;
  if constexpr (kPack > 1) {
    *reinterpret_cast<uint4*>(&result) = __ldg(reinterpret_cast<const uint4*>(address));
  } else {
    result.value[0] = *address;
  }
  return result;
}

// Computes this lane's part of the dot products of kRows rows and kFeatures features; the last of `rows` replaces missing rows.
__device__ __forceinline__ void accumulate(float (&sums)[kFeatures * kRows], const T* input, const T* const (&weights)[kFeatures],
                                           int rows) {
#pragma unroll 2
  for (int k = threadIdx.x % 32 * kPack; k < kIn; k += 32 * kPack) {
    PackOfRow b[kFeatures];
#pragma unroll
    for (int f = 0; f < kFeatures; ++f) b[f] = load_pack(weights[f] + k);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const PackOfRow a = load_pack(input + min(r, rows - 1) * kIn + k);
#pragma unroll
      for (int f = 0; f < kFeatures; ++f) {
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          sums[f * kRows + r] = fmaf(to_float(a.value[i]), to_float(b[f].value[i]), sums[f * kRows + r]);
        }
      }
    }
  }
}

__device__ __forceinline__ T finish(float sum, T bias) {
  const float value = sum + to_float(bias);
  return from_float<T>(kRelu ? relu_nan(value) : value);
}

// Grid: (ceil(out / (kWarps * kFeatures)), up to ceil(n / kRows)); rows beyond that are taken in further rounds.
extern "C" __global__ void __launch_bounds__(kThreads)
    dense_bias_relu_by4(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  wait_for_previous_kernel();
  constexpr int kSums = kFeatures * kRows;
  const int lane = threadIdx.x % 32, first_feature = (blockIdx.x * kWarps + threadIdx.x / 32) * kFeatures;
  if (first_feature >= kOut) return;
  const T* weights[kFeatures];
#pragma unroll
  for (int f = 0; f < kFeatures; ++f) weights[f] = w + static_cast<size_t>(min(first_feature + f, kOut - 1)) * kIn;

  for (int first = blockIdx.y * kRows; first < n; first += gridDim.y * kRows) {
    const int rows = min(kRows, n - first);
    const T* input = x + static_cast<size_t>(first) * kIn;
    float sums[kSums] = {};
    if (rows == kRows) {
      accumulate(sums, input, weights, kRows);
    } else {
      accumulate(sums, input, weights, rows);
    }
    const int mine = exchange_sums<kSums, 16>(sums, lane);  // the sum that this lane now holds
    const int row = mine % kRows, feature = first_feature + mine / kRows;
    if (lane % (32 / kSums) == 0 && row < rows && feature < kOut) {
      y[static_cast<size_t>(first + row) * kOut + feature] = finish(sums[0], bias[feature]);
    }
  }
}

// Grid: ceil(out / kFeatures).
extern "C" __global__ void __launch_bounds__(kThreads)
    dense_bias_relu_vector(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int /* n = 1 */,
                           T* __restrict__ y) {
  wait_for_previous_kernel();
  __shared__ float parts[kWarps][kFeatures];
  const int thread = threadIdx.x, lane = thread % 32, first_feature = blockIdx.x * kFeatures;
  const T* weights[kFeatures];
#pragma unroll
  for (int f = 0; f < kFeatures; ++f) weights[f] = w + static_cast<size_t>(min(first_feature + f, kOut - 1)) * kIn;

  float sums[kFeatures] = {};
#pragma unroll 4
  for (int k = thread * kPack; k < kIn; k += kThreads * kPack) {
    const PackOfRow a = load_pack(x + k);
#pragma unroll
    for (int f = 0; f < kFeatures; ++f) {
      const PackOfRow b = load_pack(weights[f] + k);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sums[f] = fmaf(to_float(a.value[i]), to_float(b.value[i]), sums[f]);
    }
  }
  const int mine = exchange_sums<kFeatures, 16>(sums, lane);
  if (lane % (32 / kFeatures) == 0) parts[thread / 32][mine] = sums[0];
  __syncthreads();
  const int feature = first_feature + thread;
  if (thread >= kFeatures || feature >= kOut) return;
  float sum = 0.0f;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) sum += parts[warp][thread];
  y[feature] = finish(sum, bias[feature]);
}
