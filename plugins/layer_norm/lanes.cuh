// layer_norm of rows in the registers of 8, 16 or 32 neighbouring lanes each, as the variant declares its threads: 16 rows a block.
//
// A thread has the same columns in two rows, loads both first, and loads scale and bias once for them.
#pragma once

#include "layer_norm/layer_norm.cuh"

namespace layer_norm {

constexpr int kGroups = 8;
constexpr int kLanes = LAUNCH_THREADS / kGroups;
__host__ __device__ constexpr bool is_written_for(int threads) {
  return threads == 8 * kGroups || threads == 16 * kGroups || threads == 32 * kGroups;
}
constexpr int kRows = 2;  // of a thread

template <typename Source, typename Residual, typename Norm>
__device__ __forceinline__ void rows_of_lanes(Source x, Residual residual, Norm norm, unsigned rows, T* __restrict__ y) {
  constexpr int kWidth = row_width<T>(kPiece<Source>);
  constexpr int kEach = ceil_div(kLength, kLanes * kWidth);
  using Part = Vector<T, kWidth>;
  const int lane = threadIdx.x % kLanes;
  const unsigned first = blockIdx.x * (kGroups * kRows) + threadIdx.x / kLanes;
  const auto column = [&](int i) { return (i * kLanes + lane) * kWidth; };

  Part part[kRows][kEach] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const auto row = row_of(x, min(first + r * kGroups, rows - 1));
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (column(i) < kLength) part[r][i] = load_vector<kWidth>(row + column(i));
    }
  }
  if constexpr (Residual::kAdds) {
    Part other[kRows][kEach];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const size_t start = static_cast<size_t>(min(first + r * kGroups, rows - 1)) * kLength;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (column(i) < kLength) other[r][i] = load_vector<kWidth>(residual.other + start + column(i));
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const unsigned index = first + r * kGroups;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (column(i) >= kLength) break;
        if constexpr (Residual::kGates) {
          const Part gates = residual.gates.template of<kWidth>(min(index, rows - 1), column(i));
#pragma unroll
          for (int j = 0; j < kWidth; ++j) part[r][i].value[j] = added(part[r][i].value[j], other[r][i].value[j], gates.value[j]);
        } else {
#pragma unroll
          for (int j = 0; j < kWidth; ++j) part[r][i].value[j] = added(part[r][i].value[j], other[r][i].value[j]);
        }
        if (index < rows) store_vector(residual.sum + static_cast<size_t>(index) * kLength + column(i), part[r][i]);
      }
    }
  }
  float mean[kRows], inverse[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    mean[r] = 0.0f;
    if constexpr (Norm::kCentred) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) sum += to_float(part[r][i].value[j]);
      }
      mean[r] = lanes_sum<kLanes>(sum) * (1.0f / kLength);
    }
    float squares = 0.0f;
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
    const Part scales = load_vector<kWidth>(norm.scale + column(i)), biases = norm.template biases<kWidth>(column(i));
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const unsigned index = first + r * kGroups;
      const auto value = [&](int j) { return normalized(to_float(part[r][i].value[j]), mean[r], inverse[r], scales.value[j], biases.value[j]); };
      Part out;
      if constexpr (Norm::kModulates) {
        const size_t row = min(index, rows - 1);
        const Part factors = norm.factors.template of<kWidth>(row, column(i)), shifts = norm.shifts.template of<kWidth>(row, column(i));
#pragma unroll
        for (int j = 0; j < kWidth; ++j) out.value[j] = from_float<T>(modulated(value(j), factors.value[j], shifts.value[j]));
      } else {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) out.value[j] = from_float<T>(value(j));
      }
      if (index < rows) store_vector(y + static_cast<size_t>(index) * kLength + column(i), out);
    }
  }
}

}  // namespace layer_norm
