// How the sums of a tile by wgmma become rows of outputs.
//
// A lane has pairs of neighbouring sums, of 8 rows in all lanes. Each warp writes its 16 rows to shared memory, 64 outputs at a time, and reads them
// so that 8 lanes store 128 neighbouring bytes. There another tensor is added to sums that have been rounded, if the layer adds one, and then comes the
// activation.
#pragma once

#include "linear/tile.cuh"
#include "linear_half/outputs.cuh"
#include "split_floats/pair_bits.cuh"

constexpr int kStoredColumns = 64, kStoredPitch = kStoredColumns + kEight;  // 16 bytes more: rows that are written at once have different banks
constexpr unsigned kStoredBytes = 16 * kStoredPitch * sizeof(T);            // of a warp

// Makes eight outputs of sums, their gates, and what is added to them.
__device__ __forceinline__ Vector<T, kEight> outputs_of(const Vector<T, kEight>& sums, const Vector<T, kEight>& gates,
                                                        const Vector<T, kEight>& others) {
  Vector<T, kEight> outputs;
#pragma unroll
  for (int i = 0; i < kEight; ++i) outputs.value[i] = output_of(to_float(sums.value[i]), gates.value[i], others.value[i]);
  return outputs;
}

template <typename Plan>
struct StoredRows {
  static constexpr int kPairs = Plan::kColumns / kEight, kPairsAtOnce = kStoredColumns / kEight, kParts = ceil_div(kPairs, kPairsAtOnce);
  static constexpr Activation kOfSums = kAdds ? Activation::kNone : kActivation;
  const Outputs& layer;
  T* const of_warp;
  const int first_row;  // of the warp, in a tile
  Place place;
  Vector<T, 2> biases[kPairs];
  unsigned pairs[kPairs / 2][4];  // outputs, or sums: for 8 columns those of a lane's first and second row, then for the next 8; two in a register

  // Nothing is stored before outputs are taken.
  __device__ __forceinline__ StoredRows(const Outputs& layer, unsigned char* memory, int warp)
      : layer(layer), of_warp(reinterpret_cast<T*>(memory + Plan::kStored + warp * kStoredBytes)), first_row(warp * 16), place{layer.n, 0} {}

  __device__ __forceinline__ void begin(const Place& next) {
    place = next;
    const int column = place.column + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      biases[j] = {};
      if (Plan::kFull || column + j * kEight < kOutputs) biases[j] = load_vector<2>(layer.bias + column + j * kEight);
    }
  }

  __device__ __forceinline__ void take(const float (&sums)[Plan::kColumns / 2]) {
#pragma unroll
    for (int i = 0; i < Plan::kColumns / 4; ++i) {
      T pair[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) pair[e] = activated<kOfSums, T>(sums[2 * i + e] + to_float(biases[i / 2].value[e]));
      pairs[i / 4][i % 4] = pair_bits(pair[0], pair[1]);
    }
  }

  __device__ __forceinline__ void store(int part) const {
    const int lane = threadIdx.x % 32, row = place.row + first_row + lane / 8;
    const int first = part * kPairsAtOnce, count = smaller(kPairsAtOnce, kPairs - first), column = place.column + first * kEight + lane % 8 * kEight;
    const int end = Plan::end(place.row, layer.n);
    Vector<T, kEight> others[kAdds ? 4 : 1];  // of the lane's rows
    if constexpr (kAdds) {
      const T* const from = layer.other + (static_cast<size_t>(row) * kOutputs + column);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool exists = lane % 8 < count && (Plan::kFull || column < kOutputs) && row + 4 * i < end;
        if (exists) others[i] = load_vector<kEight>(from + 4 * i * kOutputs);
      }
    }
    const unsigned to_shared = shared_address(of_warp + lane % 16 * kStoredPitch + lane / 16 * kEight);
#pragma unroll
    for (int j = 0; j < count; j += 2) store_matrices(to_shared + j * kEight * 2, pairs[(first + j) / 2]);
    __syncwarp();
    const T* const eights = of_warp + lane / 8 * kStoredPitch + lane % 8 * kEight;
    T* const to = layer.y + (static_cast<size_t>(row) * kOutputs + column);
    const bool exists = lane % 8 < count && (Plan::kFull || column < kOutputs);
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
      if constexpr (kAdds) {
        if (exists && row + i < end) {
          const Vector<T, kEight> gates = layer.template gates<kEight>(row + i, column);
          store_vector(to + i * kOutputs, outputs_of(load16(eights + i * kStoredPitch), gates, others[i / 4]));
        }
      } else {
        if (exists && row + i < end) store_vector(to + i * kOutputs, load16(eights + i * kStoredPitch));
      }
    }
    __syncwarp();
  }
};
