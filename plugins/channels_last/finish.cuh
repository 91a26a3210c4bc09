// The end of a tile of by_wgmma.cuh: its sums become outputs, from the registers of this block or from the shared memory of a cluster's. What
// is added is loaded before: its latency passes while the products are under way, or while the cluster meets.
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

// The outputs of a lane: four filters of pixel g of each row of its half. `filter`: the warp's first one.
template <bool kAdds>
struct Outputs {
  const Tensors& tensors;
  const int filter, row, column;
  Vector<unsigned, 2> added[kAdds ? kHalfRows : 1];

  __device__ __forceinline__ Outputs(const Tensors& tensors_, const Place& place, int half, int warp_filter)
      : tensors(tensors_),
        filter(warp_filter + threadIdx.x % 4 * kRun),
        row(place.row_of(half)),
        column(place.column_of(half) + threadIdx.x % 32 / 4) {
    if constexpr (kAdds) {
#pragma unroll
      for (int i = 0; i < kHalfRows; ++i) {
        const int from = at(i);
        added[i] = {};
        if (from >= 0) added[i] = load_vector<2>(reinterpret_cast<const unsigned*>(tensors.other + from));
      }
    }
  }

  // Where those of a row are in y, or -1.
  __device__ __forceinline__ int at(int of_half) const {
    const ImageSpot spot(row + of_half, column);
    return spot.exists(tensors.n) && filter < kFilters ? spot.of_all() * kFilters + filter : -1;
  }

  __device__ __forceinline__ void store(const float (&sums)[kSums]) const {
#pragma unroll
    for (int i = 0; i < kHalfRows; ++i) {
      Vector<unsigned, 2> outputs;
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) {
        const float* const two = sums + 4 * i + 2 * eight;
        Vector<T, 2> others{};
        if constexpr (kAdds) {
          const unsigned transposed = transpose_8x8(added[i].value[eight]);
          others = *reinterpret_cast<const Vector<T, 2>*>(&transposed);
        }
        const Vector<T, 2> pair = {output<kAdds>(two[0], to_float(others.value[0])), output<kAdds>(two[1], to_float(others.value[1]))};
        outputs.value[eight] = transpose_8x8(*reinterpret_cast<const unsigned*>(&pair));
      }
      const int to = at(i);
      if (to >= 0) store_vector(reinterpret_cast<unsigned*>(tensors.y + to), outputs);
    }
  }
};

// A lane's sums to shared memory, [pixel][filter]. `filter` and `pixel`: the first ones of its warp, of the tile.
template <typename Plan>
__device__ __forceinline__ void leave_sums(float* shared, const float (&sums)[kSums], int filter, int pixel) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  float* const to = shared + (pixel + 2 * t) * Plan::kSumPitch + filter + filter_of_row(g);
#pragma unroll
  for (int i = 0; i < kSums; ++i) to[(i / 4 * 8 + i % 2) * Plan::kSumPitch + i / 2 % 2 * 2] = sums[i];
}

// The outputs of a thread of a cluster, whose blocks finish some pixels each: runs of four filters. Pixels are counted as the halves have them.
template <typename Plan, bool kAdds>
struct SharedOutputs {
  static constexpr int kRunsOfPixel = kFilterBlock / kRun, kShare = kTilePixels / Plan::kSplits, kRuns = kShare * kRunsOfPixel / (2 * kRole);
  const Tensors& tensors;
  const int of_tile, filter, first_pixel;
  int at[kRuns];  // -1: nowhere
  Vector<T, kRun> of_bias{}, added[kRuns];

  __device__ __forceinline__ SharedOutputs(const Tensors& tensors_, const Place& place)
      : tensors(tensors_),
        of_tile(threadIdx.x % kRunsOfPixel * kRun),
        filter(place.block * kFilterBlock + of_tile),
        first_pixel(blockIdx.x % Plan::kSplits * kShare + (threadIdx.x - kRole) / kRunsOfPixel) {
    if (filter < kFilters) of_bias = load_vector<kRun>(tensors.bias + filter);
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const int pixel = pixel_of(i), half = pixel / kHalfPixels;
      const ImageSpot spot(place.row_of(half) + pixel % kHalfPixels / 8, place.column_of(half) + pixel % 8);
      at[i] = spot.exists(tensors.n) && filter < kFilters ? spot.of_all() * kFilters + filter : -1;
      added[i] = {};
      if (kAdds && at[i] >= 0) added[i] = load_vector<kRun>(tensors.other + at[i]);
    }
  }

  __device__ __forceinline__ int pixel_of(int run) const { return first_pixel + run * (2 * kRole / kRunsOfPixel); }

  __device__ __forceinline__ void store(const float* shared) const {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      float total[kRun];
#pragma unroll
      for (int f = 0; f < kRun; ++f) total[f] = to_float(of_bias.value[f]);
#pragma unroll
      for (unsigned block = 0; block < Plan::kSplits; ++block) {
        const float4 part = read_remote(shared + pixel_of(i) * Plan::kSumPitch + of_tile, block);
        total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
      }
      Vector<T, kRun> outputs;
#pragma unroll
      for (int f = 0; f < kRun; ++f) outputs.value[f] = output<kAdds>(total[f], to_float(added[i].value[f]));
      if (at[i] >= 0) store_vector(tensors.y + at[i], outputs);
    }
  }
};
