// softmax of rows in the registers of kLanes neighbouring lanes each, read and written kWidth elements at a time.
#pragma once

#include "softmax/softmax.cuh"

namespace softmax {

constexpr int kWidth = row_width<T>(kLength);

template <int kLanes>
struct LaneRow {
  static constexpr int kEach = ceil_div(kLength, kLanes * kWidth);
  float value[kEach][kWidth];

  // Elements after the row's last one become -infinity.
  __device__ __forceinline__ LaneRow(const T* row, int lane) {
    for_each(lane, [&](int i, int first) {
      const Vector<T, kWidth> vector = load_vector<kWidth>(row + first);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) value[i][j] = to_float(vector.value[j]);
    });
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      if (((kEach - 1) * kLanes + lane) * kWidth >= kLength) value[kEach - 1][j] = nothing();
    }
  }

  // All 32 lanes must call; store(first, vector) is called for each vector of the row, with its first element's index.
  template <typename Store>
  __device__ __forceinline__ void compute(int lane, Store store) {
    float largest = nothing(), sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) largest = max_nan(largest, value[i][j]);
    }
    largest = lanes_max<kLanes>(largest);
    const float reference = reference_of(largest);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum += value[i][j] = exp_approx(value[i][j] - reference);
    }
    const float factor = 1.0f / lanes_sum<kLanes>(sum);
    for_each(lane, [&](int i, int first) {
      Vector<T, kWidth> out;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) out.value[j] = from_float<T>(value[i][j] * factor);
      store(first, out);
    });
  }

  // Calls each(i, first) for each vector of the row that the lane has.
  template <typename Each>
  static __device__ __forceinline__ void for_each(int lane, Each each) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int first = (i * kLanes + lane) * kWidth;
      if (first < kLength) each(i, first);
    }
  }
};

// kRows rows of a block, kLanes lanes each.
template <int kRows, int kLanes>
__device__ __forceinline__ void rows_of_lanes(const T* __restrict__ x, int rows, T* __restrict__ y) {
  const int lane = threadIdx.x % kLanes, row = blockIdx.x * kRows + threadIdx.x / kLanes;
  LaneRow<kLanes> values(x + static_cast<size_t>(min(row, rows - 1)) * kLength, lane);
  T* const out = y + static_cast<size_t>(row) * kLength;
  values.compute(lane, [&](int element, const Vector<T, kWidth>& vector) {
    if (row < rows) store_vector(out + element, vector);
  });
}

}  // namespace softmax
