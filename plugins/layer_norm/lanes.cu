// layer_norm (see kernel.cu) with one or several rows a warp: for rows of up to a thousand elements.
//
// x [rows, K], scale [K], bias [K] -> y [rows, K].
//
// Mapping: 16 rows a block. 8, 16 or 32 neighbouring lanes, as the variant declares its threads, share a row and hold it in
// registers; a thread has the same columns in two rows, loads both first, and loads scale and bias once for them.
// Bytes: x and y once; scale and bias from L1.
#include "layer_norm/layer_norm.cuh"

namespace layer_norm {

constexpr int kGroups = 8;
constexpr int kLanes = LAUNCH_THREADS / kGroups;
constexpr int kRows = 2;  // of a thread
constexpr int kWidth = row_width<T>(kLength);

__device__ __forceinline__ void rows_of_lanes(const T* __restrict__ x, const T* __restrict__ scale,
                                              const T* __restrict__ bias, unsigned rows, T* __restrict__ y) {
  constexpr int kEach = ceil_divide(kLength, kLanes * kWidth);
  using Part = Vector<T, kWidth>;
  const int lane = threadIdx.x % kLanes;
  const unsigned first = blockIdx.x * (kGroups * kRows) + threadIdx.x / kLanes;
  const auto column = [&](int i) { return (i * kLanes + lane) * kWidth; };

  Part part[kRows][kEach] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const T* const row = x + static_cast<size_t>(min(first + r * kGroups, rows - 1)) * kLength;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (column(i) < kLength) part[r][i] = load_vector<T, kWidth>(row + column(i));
    }
  }
  float mean[kRows], inverse[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum += to_float(part[r][i].value[j]);
    }
    mean[r] = lanes_sum<kLanes>(sum) * (1.0f / kLength);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        squares += column(i) < kLength ? square(to_float(part[r][i].value[j]) - mean[r]) : 0.0f;
      }
    }
    inverse[r] = inverse_deviation(lanes_sum<kLanes>(squares));
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (column(i) >= kLength) break;
    const Part scales = load_vector<T, kWidth>(scale + column(i)), biases = load_vector<T, kWidth>(bias + column(i));
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const unsigned index = first + r * kGroups;
      Part out;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        out.value[j] = from_float<T>(
            normalized(to_float(part[r][i].value[j]), mean[r], inverse[r], scales.value[j], biases.value[j]));
      }
      if (index < rows) store_vector(y + static_cast<size_t>(index) * kLength + column(i), out);
    }
  }
}

}  // namespace layer_norm

using layer_norm::T;
ASSERT_LAUNCH(layer_norm_lanes, LAUNCH_THREADS, 0);

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    layer_norm_lanes(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, int rows,
                     T* __restrict__ y) {
  layer_norm::rows_of_lanes(x, scale, bias, rows, y);
}
