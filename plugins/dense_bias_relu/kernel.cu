// dense_bias_relu: y = x w^T + bias, then ReLU if ATTR_RELU. Few rows: one warp an output feature.
//
// x [n, in], w [out, in] (torch's layout; ONNX Gemm with transB = 1), bias [out], y [n, out].
//
// Thread mapping: a warp takes one feature and kRows rows of x, its lanes side by side along `in`, so w and x are read
// coalesced; the lanes then exchange sums as in batched_matvec. Every warp stands alone: with one row this is as many
// warps as features, which is what a latency-bound layer wants.
//
// Bytes moved: w and x once from L2 per kRows rows; so for many rows `tile.cu` or `tensor_core.cu` win.
#include "common.cuh"

using T = TYPE_T;
constexpr int kIn = AXIS_IN, kOut = AXIS_OUT;
constexpr bool kRelu = ATTR_RELU != 0;
constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kRows = 8;
constexpr int kPack = kIn % Pack16<T>::kCount == 0 ? Pack16<T>::kCount : 1;  // elements a lane loads at a time

struct PackOfRow {
  T value[kPack];
};

__device__ __forceinline__ PackOfRow load_pack(const T* address) {
  PackOfRow result;
  if constexpr (kPack > 1) {
    *reinterpret_cast<uint4*>(&result) = __ldg(reinterpret_cast<const uint4*>(address));
  } else {
    result.value[0] = *address;
  }
  return result;
}

// Grid: (ceil(out / kWarps), ceil(n / kRows)); rows beyond grid.y * kRows are taken in further rounds.
extern "C" __global__ void __launch_bounds__(kThreads)
    dense_bias_relu(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n, T* __restrict__ y) {
  const int lane = threadIdx.x % 32, feature = blockIdx.x * kWarps + threadIdx.x / 32;
  if (feature >= kOut) return;
  const float offset = to_float(bias[feature]);
  const T* weights = w + static_cast<size_t>(feature) * kIn;

  for (int first = blockIdx.y * kRows; first < n; first += gridDim.y * kRows) {
    const int rows = min(kRows, n - first);
    const T* input = x + static_cast<size_t>(first) * kIn;
    float sums[kRows] = {};
    if (rows == kRows) {
#pragma unroll 2
      for (int k = lane * kPack; k < kIn; k += 32 * kPack) {
        const PackOfRow b = load_pack(weights + k);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const PackOfRow a = load_pack(input + r * kIn + k);
#pragma unroll
          for (int i = 0; i < kPack; ++i) sums[r] = fmaf(to_float(a.value[i]), to_float(b.value[i]), sums[r]);
        }
      }
    } else {
#pragma unroll 2
      for (int k = lane * kPack; k < kIn; k += 32 * kPack) {
        const PackOfRow b = load_pack(weights + k);
#pragma unroll
        for (int r = 0; r < kRows - 1; ++r) {
          if (r >= rows) break;
          const PackOfRow a = load_pack(input + r * kIn + k);
#pragma unroll
          for (int i = 0; i < kPack; ++i) sums[r] = fmaf(to_float(a.value[i]), to_float(b.value[i]), sums[r]);
        }
      }
    }
    const int row = exchange_sums<kRows, 16>(sums, lane);
    if (lane % (32 / kRows) == 0 && row < rows) {
      const float value = sums[0] + offset;
      y[static_cast<size_t>(first + row) * kOut + feature] = from_float<T>(kRelu ? relu_nan(value) : value);
    }
  }
}
