// softmax of rows in the registers of kLanes neighbouring lanes each, read and written kWidth elements at a time.
#pragma once

#include "softmax/softmax.cuh"

namespace softmax {

constexpr int kWidth = row_width<T>(kLength);

template <int kLanes>
struct LaneRow {
  static constexpr int kEach = ceil_divide(kLength, kLanes * kWidth);
  Vector<T, kWidth> vector[kEach];

  __device__ __forceinline__ void load(const T* row, int lane) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int first = (i * kLanes + lane) * kWidth;
      if (first < kLength) {
        vector[i] = load_vector<T, kWidth>(row + first);
      } else {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) vector[i].value[j] = from_float<T>(nothing());
      }
    }
  }

  // All 32 lanes must call; store(first, vector) is called for each vector of the row, with its first element's index.
  template <typename Store>
  __device__ __forceinline__ void compute(int lane, Store store) const {
    float largest = nothing(), sum = 0.0f;
    float value[kEach][kWidth];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        value[i][j] = to_float(vector[i].value[j]);
        largest = max_nan(largest, value[i][j]);
      }
    }
    largest = lanes_max<kLanes>(largest);
    const float reference = reference_of(largest);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum += value[i][j] = exp_below(value[i][j] - reference);
    }
    const float factor = 1.0f / lanes_sum<kLanes>(sum);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int first = (i * kLanes + lane) * kWidth;
      Vector<T, kWidth> out;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) out.value[j] = from_float<T>(value[i][j] * factor);
      if (first < kLength) store(first, out);
    }
  }
};

}  // namespace softmax
