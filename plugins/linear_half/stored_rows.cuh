// How the sums of a tile by wgmma become rows of outputs.
//
// A lane has pairs of neighbouring sums, of 8 rows in all lanes. Each warp writes its 16 rows to shared memory, 64 outputs at a time, and reads them
// so that 8 lanes store 128 neighbouring bytes.
#pragma once

#include "linear/tile.cuh"
#include "linear_half/outputs.cuh"

constexpr int kStoredColumns = 64, kStoredPitch = kStoredColumns + kEight;  // 16 bytes more: rows that are written at once have different banks
constexpr unsigned kStoredBytes = 16 * kStoredPitch * sizeof(T);            // of a warp

template <typename Plan>
struct StoredRows {
  static constexpr int kPairs = Plan::kColumns / kEight, kPairsAtOnce = kStoredColumns / kEight;
  const Outputs& layer;
  const Place& place;
  Vector<T, 2> biases[kPairs];  // of a lane's sums; they come while it multiplies

  __device__ __forceinline__ StoredRows(const Outputs& layer, const Place& place) : layer(layer), place(place) {
    const int column = place.column + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      biases[j] = {};
      if (Plan::kFull || column + j * kEight < kOutputs) biases[j] = load_vector<2>(layer.bias + column + j * kEight);
    }
  }

  // `warp`: of those that multiply.
  __device__ __forceinline__ void finish(const float (&sums)[Plan::kColumns / 2], unsigned char* memory, int warp) const {
    const int lane = threadIdx.x % 32, column = lane % 8 * kEight, row = place.row + warp * 16 + lane / 8;
    T* const of_warp = reinterpret_cast<T*>(memory + Plan::kStored + warp * kStoredBytes);
    T* const pairs = of_warp + lane / 4 * kStoredPitch + lane % 4 * 2;
    const T* const eights = of_warp + lane / 8 * kStoredPitch + column;
    T* const to = layer.y + (static_cast<size_t>(row) * kOutputs + place.column + column);
#pragma unroll
    for (int first = 0; first < kPairs; first += kPairsAtOnce) {
      const int count = smaller(kPairsAtOnce, kPairs - first);
#pragma unroll
      for (int j = 0; j < count; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) *reinterpret_cast<Vector<T, 2>*>(pairs + 8 * i * kStoredPitch + j * kEight) = pair(sums, first + j, i);
      }
      __syncwarp();
      const bool exists = lane % 8 < count && (Plan::kFull || place.column + first * kEight + column < kOutputs);
#pragma unroll
      for (int i = 0; i < 16; i += 4) {
        if (exists && row + i < layer.n) store_vector(to + i * kOutputs + first * kEight, load16(eights + i * kStoredPitch));
      }
      __syncwarp();
    }
  }

 private:
  // Two neighbouring outputs of a lane's first or second row.
  __device__ __forceinline__ Vector<T, 2> pair(const float (&sums)[Plan::kColumns / 2], int j, int i) const {
    Vector<T, 2> outputs;
#pragma unroll
    for (int e = 0; e < 2; ++e) outputs.value[e] = from_float<T>(activate<kActivation>(sums[4 * j + 2 * i + e] + to_float(biases[j].value[e])));
    return outputs;
  }
};
