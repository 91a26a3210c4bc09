// The end of a tile of by_wgmma.cuh: its sums become outputs, by way of shared memory. What is added is loaded before: its latency passes while the
// products are under way, or while the cluster meets.
#pragma once

#include "block_cluster.cuh"
#include "channels_last/patch.cuh"
#include "copies.cuh"
#include "split_floats/pair_bits.cuh"

constexpr int kRun = 4;  // neighbouring filters of a thread
constexpr int kSums = 4 * kHalfRows;  // of a lane

// The filter, among 16, that row `row` of a product is; the row 8 further is the filter 2 further.
__device__ __forceinline__ int filter_of_row(int row) { return row / 2 * kRun + row % 2; }

// The outputs of a half of a tile on their way to y, in lines of 128 bytes: begin() says of which tile they are, take() makes them of sums, and
// store() stores a part of them, while the products of the next tile are under way. What is added takes the way back.
//
// A lane (g = lane / 4, t = lane % 4) has sums of rows g and g + 8 of its warp's 16 filters, of pixels 2 t and 2 t + 1 of each 8. They are stored to
// shared memory transposed, as 16-bit numbers: of a pixel, the filters of rows 0 to 7 of a warp, then those of rows 8 to 15 (filter_of_row),
// then those of the next warp. A lane loads and stores 8 neighbouring filters of a pixel, and 8 lanes all 64.
template <bool kAdds>
struct StoredPixels {
  static constexpr int kPixels = 4, kParts = kHalfPixels / (kPixels * kRole / 32);  // kPixels: of a part and a warp
  const Tensors& tensors;
  T* const outputs;  // of the half
  const int half, warp = threadIdx.x % kRole / 32, lane = threadIdx.x % 32;
  int filter = kFilters, row = 0, column = 0;  // of the lane's first outputs; at first, none
  Vector<unsigned, 4> added[kAdds ? kParts : 1];

  __device__ __forceinline__ StoredPixels(const Tensors& tensors, T* of_halves, int half)
      : tensors(tensors), outputs(of_halves + half * kHalfPixels * kPixelPitch), half(half) {}

  // All warps of the half have come here.
  __device__ __forceinline__ void meet() const { wait_for_group<kRole>(2 + half); }

  __device__ __forceinline__ void begin(const Place& place) {
    filter = place.block * kFilterBlock + lane % 8 * kEight;
    row = place.row_of(half);
    column = place.column_of(half) + lane / 8;
    if constexpr (kAdds) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int from = at(part);
        added[part] = {};
        if (from >= 0) added[part] = load_vector<4>(reinterpret_cast<const unsigned*>(tensors.other + from));
      }
    }
  }

  __device__ __forceinline__ void take(const float (&sums)[kSums]) {
    meet();  // all that was here is stored
    if constexpr (kAdds) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        unsigned* const to = reinterpret_cast<unsigned*>(in_shared(part));
        const unsigned(&words)[4] = added[part].value;
        *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[2]);
        *reinterpret_cast<uint2*>(to + kEight / 2) = make_uint2(words[1], words[3]);
      }
      meet();
    }
    const unsigned rows = shared_address(outputs) + ((lane / 16 * 8 + lane % 8) * kPixelPitch + warp * 16 + lane / 8 % 2 * kEight) * 2;
#pragma unroll
    for (int i = 0; i < kHalfRows; i += 2) {
      const unsigned of_rows = rows + i * 8 * kPixelPitch * 2;
      unsigned words[4] = {};
      if constexpr (kAdds) load_matrices<true>(words, of_rows);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* const two = sums + 4 * i + 2 * j;
        const Vector<T, 2> others = *reinterpret_cast<const Vector<T, 2>*>(&words[j]);
        words[j] = pair_bits(output<kAdds>(two[0], to_float(others.value[0])), output<kAdds>(two[1], to_float(others.value[1])));
      }
      store_matrices<true>(of_rows, words);
    }
  }

  // Some outputs of each lane; meet() comes before the first ones.
  __device__ __forceinline__ void store(int part) const {
    const unsigned* const from = reinterpret_cast<const unsigned*>(in_shared(part));
    const uint2 first = *reinterpret_cast<const uint2*>(from), second = *reinterpret_cast<const uint2*>(from + kEight / 2);
    const int to = at(part);
    Vector<unsigned, 4> words{{first.x, second.x, first.y, second.y}};
    clear_padding(reinterpret_cast<Vector<T, kEight>&>(words), filter);
    if (to >= 0) store_vector(reinterpret_cast<unsigned*>(tensors.y + to), words);
  }

 private:
  __device__ __forceinline__ unsigned four_of(int part) const { return warp * kParts + part; }

  // Where a lane's 8 filters of a pixel are: in shared memory, the first two runs of two, the others 8 further; and in y, or -1.
  __device__ __forceinline__ T* in_shared(int part) const {
    const int pixel = four_of(part) * kPixels + lane / 8;
    return outputs + pixel * kPixelPitch + lane % 8 / 2 * 16 + lane % 2 * kRun;
  }
  __device__ __forceinline__ int at(int part) const {
    const unsigned four = four_of(part);  // two are a row of the half
    const ImageSpot spot(row + four / 2, column + four % 2 * kPixels);
    return spot.exists(tensors.n) && filter < kFilters ? spot.of_all() * kFilters + filter : -1;
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
  static constexpr int kRunsOfPixel = kFilterBlock / kRun, kAtOnce = 2 * kRole / kRunsOfPixel;  // pixels
  static constexpr int kShare = kTilePixels / Plan::kSplits, kRuns = ceil_div(kShare, kAtOnce);
  const Tensors& tensors;
  const Place& place;
  const int of_tile, filter, first_pixel;
  int at[kRuns];  // -1: nowhere
  float of_bias[kRun];
  Vector<T, kRun> added[kRuns];

  __device__ __forceinline__ SharedOutputs(const Tensors& tensors_, const Place& place_)
      : tensors(tensors_),
        place(place_),
        of_tile(threadIdx.x % kRunsOfPixel * kRun),
        filter(place_.block * kFilterBlock + of_tile),
        first_pixel(blockIdx.x % Plan::kSplits * kShare + (threadIdx.x - kRole) / kRunsOfPixel) {}

  // Finds the outputs' places, and loads what they are made of beside sums.
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int f = 0; f < kRun; ++f) of_bias[f] = bias_of(tensors, filter + f);
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const int pixel = pixel_of(i), half = pixel / kHalfPixels;
      const ImageSpot spot(place.row_of(half) + pixel % kHalfPixels / 8, place.column_of(half) + pixel % 8);
      const bool mine = kShare % kAtOnce == 0 || pixel < (blockIdx.x % Plan::kSplits + 1) * kShare;
      at[i] = mine && spot.exists(tensors.n) && filter < kFilters ? spot.of_all() * kFilters + filter : -1;
      added[i] = {};
      if (kAdds && at[i] >= 0) added[i] = load_vector<kRun>(tensors.other + at[i]);
    }
  }

  __device__ __forceinline__ int pixel_of(int run) const { return first_pixel + run * kAtOnce; }

  __device__ __forceinline__ void store(const float* shared) const {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      float total[kRun];
#pragma unroll
      for (int f = 0; f < kRun; ++f) total[f] = of_bias[f];
#pragma unroll
      for (unsigned block = 0; block < Plan::kSplits; ++block) {
        const float4 part = read_remote(shared + pixel_of(i) * Plan::kSumPitch + of_tile, block);
        total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
      }
      Vector<T, kRun> outputs;
#pragma unroll
      for (int f = 0; f < kRun; ++f) outputs.value[f] = output<kAdds>(total[f], to_float(added[i].value[f]));
      clear_padding(outputs, filter);
      if (at[i] >= 0) store_vector(tensors.y + at[i], outputs);
    }
  }
};
