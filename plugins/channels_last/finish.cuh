// The end of a tile of by_wgmma.cuh: its sums become outputs, from the registers of this block or from the shared memory of a cluster's.
//
// A lane (g = lane / 4, t = lane % 4) has sums of rows g and g + 8 of its warp's 16 filters, of pixels 2 t and 2 t + 1 of each 8. Transposed by
// movmatrix, as 16-bit numbers, they are four neighbouring filters of pixel g (layer.cuh): 8 bytes, and the four lanes of a pixel
// store 32.
#pragma once

#include "block_cluster.cuh"
#include "channels_last/patch.cuh"
#include "mma.cuh"

constexpr int kRun = 4;  // neighbouring filters of a thread
constexpr int kSums = 4 * kHalfRows;  // of a lane

// The filter, among 16, that row `row` of a product is; the row 8 further is the filter 2 further.
__device__ __forceinline__ int filter_of_row(int row) { return row / 2 * kRun + row % 2; }

template <bool kAdds>
__device__ __forceinline__ T output(float sum, float added) {
  return from_float<T>(activate<kActivation>(kAdds ? sum + added : sum));
}

// From registers. `filter`: the warp's first one. `row` and `column`: the half's first pixel.
template <typename Patch, bool kAdds>
__device__ __forceinline__ void finish_lane(const Tensors& tensors, const float (&sums)[kSums], int filter, int row, int column) {
  constexpr int kTogether = 4;  // rows whose loads are under way at once
  const int g = threadIdx.x % 32 / 4, first = filter + threadIdx.x % 4 * kRun;
#pragma unroll
  for (int some = 0; some < kHalfRows; some += kTogether) {
    int at[kTogether];
    Vector<unsigned, 2> added[kTogether] = {};
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      const SpotOfY<Patch> spot(row + some + j, column + g);
      at[j] = spot.exists(tensors.n) && first < kFilters ? spot.of_all() * kFilters + first : -1;
      if (kAdds && at[j] >= 0) added[j] = load_vector<2>(reinterpret_cast<const unsigned*>(tensors.other + at[j]));
    }
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      Vector<unsigned, 2> outputs;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* const two = sums + 4 * (some + j) + 2 * i;
        Vector<T, 2> others{};
        if constexpr (kAdds) {
          const unsigned transposed = transpose_8x8(added[j].value[i]);
          others = *reinterpret_cast<const Vector<T, 2>*>(&transposed);
        }
        const Vector<T, 2> pair = {output<kAdds>(two[0], to_float(others.value[0])), output<kAdds>(two[1], to_float(others.value[1]))};
        outputs.value[i] = transpose_8x8(*reinterpret_cast<const unsigned*>(&pair));
      }
      if (at[j] >= 0) store_vector(reinterpret_cast<unsigned*>(tensors.y + at[j]), outputs);
    }
  }
}

// A lane's sums to shared memory, [pixel][filter]. `filter` and `pixel`: the warp's first filter and the half's first pixel, of the tile.
template <typename Patch>
__device__ __forceinline__ void leave_sums(float* shared, const float (&sums)[kSums], int filter, int pixel) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  float* const to = shared + (pixel + 2 * t) * Patch::kSumPitch + filter + filter_of_row(g);
#pragma unroll
  for (int i = 0; i < kSums; ++i) to[(i / 4 * 8 + i % 2) * Patch::kSumPitch + i / 2 % 2 * 2] = sums[i];
}

// From the shared memory of all blocks of a cluster: this block finishes some pixels, a thread runs of neighbouring filters. Pixels are counted as
// the halves have them, in rows of 8.
template <typename Patch, bool kAdds>
__device__ __forceinline__ void finish_share(const Tensors& tensors, const float* shared, const Place<Patch>& place) {
  constexpr int kRunsOfPixel = Patch::kTileFilters / kRun, kShare = Patch::kPixels / Patch::kSplits, kOfHalf = 8 * kHalfRows;
#pragma unroll 2
  for (int run = static_cast<int>(threadIdx.x) - kRole; run < kShare * kRunsOfPixel; run += 2 * kRole) {
    const int pixel = blockIdx.x % Patch::kSplits * kShare + run / kRunsOfPixel, of_tile = run % kRunsOfPixel * kRun;
    const int half = pixel / kOfHalf, filter = place.block * kFilterBlock + of_tile;
    const SpotOfY<Patch> spot(place.row + Patch::below(half) + pixel % kOfHalf / 8, place.column + Patch::across(half) + pixel % 8);
    if (!spot.exists(tensors.n) || filter >= kFilters) continue;
    const int at = spot.of_all() * kFilters + filter;
    const Vector<T, kRun> of_bias = load_vector<kRun>(tensors.bias + filter);
    Vector<T, kRun> added{};
    if constexpr (kAdds) added = load_vector<kRun>(tensors.other + at);
    float total[kRun];
#pragma unroll
    for (int i = 0; i < kRun; ++i) total[i] = to_float(of_bias.value[i]);
#pragma unroll
    for (unsigned block = 0; block < Patch::kSplits; ++block) {
      const float4 part = read_remote(shared + pixel * Patch::kSumPitch + of_tile, block);
      total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
    }
    Vector<T, kRun> outputs;
#pragma unroll
    for (int i = 0; i < kRun; ++i) outputs.value[i] = output<kAdds>(total[i], to_float(added.value[i]));
    store_vector(tensors.y + at, outputs);
  }
}
