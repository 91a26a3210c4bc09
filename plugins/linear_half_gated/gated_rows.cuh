// How the sums of a tile by wgmma become rows of results: as in linear_half/stored_rows.cuh, with half as many results as columns.
//
// Of 16 columns, 8 results, a lane has the sums of the results q and 4 + q, with q = lane % 4. It writes the two to shared memory side by side, as a
// pair, so a row of 8 results lies there as 0 4 1 5 2 6 3 7; whoever reads it puts it in order.
#pragma once

#include "linear_half_gated/layer.cuh"

#include "copies.cuh"
#include "linear_half/stored_rows.cuh"

// Eight results in order, from the order of shared memory.
__device__ __forceinline__ Vector<T, kEight> in_order(const Vector<T, kEight>& pairs) {
  Vector<T, kEight> results;
#pragma unroll
  for (int i = 0; i < kEight; ++i) results.value[i] = pairs.value[i % 4 * 2 + i / 4];
  return results;
}

template <typename Plan>
struct GatedRows : StoredRows<Plan> {
  using StoredRows<Plan>::StoredRows;
  static constexpr int kEights = Plan::kColumns / 2 / kEight, kEightsAtOnce = kStoredColumns / kEight, kParts = ceil_div(kEights, kEightsAtOnce);
  // Results, as `pairs` of StoredRows has outputs. Where kEights is odd, the last ones are never stored.
  unsigned results[ceil_div(kEights, 2)][4] = {};

  __device__ __forceinline__ void take(const float (&sums)[Plan::kColumns / 2]) {
#pragma unroll
    for (int i = 0; i < 2 * kEights; ++i) {  // eight results of a lane's first row, then those of its second
      T pair[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int eight_columns = i / 2 * 2 + e, first = eight_columns * 4 + i % 2 * 2;
        const Vector<T, 2> of_bias = this->biases[eight_columns];
        pair[e] = gated(sums[first] + to_float(of_bias.value[0]), sums[first + 1] + to_float(of_bias.value[1]));
      }
      results[i / 4][i % 4] = pair_bits(pair[0], pair[1]);
    }
  }

  __device__ __forceinline__ void store(int part) const {
    const int lane = threadIdx.x % 32, row = this->place.row + this->first_row + lane / 8, end = Plan::end(this->place.row, this->layer.n);
    const int first = part * kEightsAtOnce, count = smaller(kEightsAtOnce, kEights - first);
    const int result = this->place.column / 2 + (first + lane % 8) * kEight;
    const unsigned to_shared = shared_address(this->of_warp + lane % 16 * kStoredPitch + lane / 16 * kEight);
#pragma unroll
    for (int j = 0; j < count; j += 2) store_matrices(to_shared + j * kEight * 2, results[(first + j) / 2]);
    __syncwarp();
    const T* const eights = this->of_warp + lane / 8 * kStoredPitch + lane % 8 * kEight;
    T* const to = this->layer.y + (static_cast<size_t>(row) * kResults + result);
    const bool exists = lane % 8 < count && (Plan::kFull || result < kResults);
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
      if (exists && row + i < end) store_vector(to + i * kResults, in_order(load16(eights + i * kStoredPitch)));
    }
    __syncwarp();
  }
};
