// The convolution of many channels on tensor cores: a product of matrices, of pixels by filters, in floats; sm_80 and newer.
//
// K runs over taps and, within a tap, channels. A block has kPixels pixels (of all images, in the order of y) and kBlockFilters filters,
// or a share of K of them: the blocks of a cluster divide K, and each adds up some filters of all.
//
// Floats: x = hi + lo / 2048 with two fp16 numbers, which are 22 bits together; x w = hi hi + (hi lo + lo hi) / 2048 in three products.
// Filters come scaled below 2. A float that is no fp16 number even so is computed again by plain multiply-adds: where the largest x of a
// window is too large, or so small that the smallest fp16 number is no longer far below it, and where a sum is not finite.
// The tensor cores cut the bits of a sum, so the products hi hi of 16 rows of K are summed alone, and added by ordinary additions.
//
// A warp computes kWarpPixels pixels and 32 filters. How its operands come to shared memory: operands.cuh.
#pragma once

#include "block_cluster.cuh"
#include "dense/instructions.cuh"
#include "many_channels/operands.cuh"

// Sums of a warp: [product: 16 pixels][product: 8 filters][as mma.cuh has them].
template <typename Tile>
using TileSums = float[Tile::kProducts][4][4];

// Adds the products of 16 rows; `x` and `filters` are this lane's first words of hi.
template <typename Tile>
__device__ __forceinline__ void multiply_rows(TileSums<Tile>& sums, TileSums<Tile>& low_sums, const unsigned* x, const unsigned* filters) {
  unsigned b_hi[4][2], b_lo[4][2];
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const Words hi = load_vector<4>(filters + q * kPieceWords);
    const Words lo = load_vector<4>(filters + q * kPieceWords + kDepth / 2 * Tile::kBlockFilters);
#pragma unroll
    for (int i = 0; i < 4; ++i) b_hi[2 * q + i / 2][i % 2] = hi.value[i], b_lo[2 * q + i / 2][i % 2] = lo.value[i];
  }
#pragma unroll
  for (int p = 0; p < Tile::kProducts; p += 2) {
    Words a_hi[2], a_lo[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      a_hi[e] = load_vector<4>(x + (p + e) * kPieceWords);
      a_lo[e] = load_vector<4>(x + (p + e) * kPieceWords + kDepth / 2 * Tile::kPixels);
    }
    // Independent sums take turns: a product waits for the one before it on the same sum.
    float part[2][4][4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) dense::multiply<__half>(part[i / 4][i % 4], a_hi[i / 4].value, b_hi[i % 4]);
#pragma unroll
    for (int i = 0; i < 8; ++i) dense::multiply<__half>(low_sums[p + i / 4][i % 4], a_lo[i / 4].value, b_hi[i % 4]);
#pragma unroll
    for (int i = 0; i < 8; ++i) dense::multiply<__half>(low_sums[p + i / 4][i % 4], a_hi[i / 4].value, b_lo[i % 4]);
#pragma unroll
    for (int i = 0; i < 32; ++i) sums[p + i / 16][i / 4 % 4][i % 4] += part[i / 16][i / 4 % 4][i % 4];
  }
}

__device__ __forceinline__ Vector<float, kRun> as_run(const float4& four) { return {four.x, four.y, four.z, four.w}; }

// `added` is added before the activation if kAdds.
template <typename Tile, bool kAdds>
__device__ __forceinline__ void many_channels_by_mma(unsigned char* memory, const T* __restrict__ x, const T* __restrict__ added,
                                                     const __half* __restrict__ filters, const T* __restrict__ scales,
                                                     const T* __restrict__ bias, int n, T* __restrict__ y) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int rank = blockIdx.x % Tile::kSplits, tile = blockIdx.x / Tile::kSplits;
  const int pixels = n * Layer::kOutPlane, first_pixel = tile / Tile::kFilterTiles * Tile::kPixels;
  const int first_filter = tile % Tile::kFilterTiles * Tile::kBlockFilters;
  const int warp_pixel = warp / Tile::kWarpsAcross * Tile::kWarpPixels, warp_filter = warp % Tile::kWarpsAcross * kWarpFilters;
  const int first_chunk = kChunks * rank / Tile::kSplits, last_chunk = kChunks * (rank + 1) / Tile::kSplits;

  float* shared = reinterpret_cast<float*>(memory);
  unsigned* operands = reinterpret_cast<unsigned*>(shared);
  float* most_of_pixels = shared + Tile::kFloats;
  if (threadIdx.x < Tile::kPixels) most_of_pixels[threadIdx.x] = 0.0f;

  Rows rows(first_chunk);
  PixelLoads<Tile> of_x(x, first_pixel, pixels, rows);
  const FilterLoads<Tile> of_filters(filters, first_filter);
  auto load = [&](Loaded<Tile>& loaded) {
    const bool exists = rows.chunk < last_chunk;  // zeros beyond
    of_x.load(loaded.x, rows, exists);
    of_filters.load(loaded.filters_hi, loaded.filters_lo, rows, exists);
    of_x.advance(rows.advance());
  };
  const auto words_of = [&](int chunk) { return operands + chunk % 2 * Tile::kOperandWords; };
  float most[2] = {};
  Loaded<Tile> ahead[Tile::kAhead];
  load(ahead[0]);
  ahead[0].split_into(words_of(first_chunk), most);
#pragma unroll
  for (int i = 0; i < Tile::kAhead; ++i) load(ahead[i]);
  __syncthreads();

  TileSums<Tile> sums = {}, low_sums = {};
#pragma unroll 1
  for (int first = first_chunk; first < last_chunk; first += Tile::kAhead) {
#pragma unroll
    for (int i = 0; i < Tile::kAhead; ++i) {
      const int chunk = first + i;
      const unsigned* words = words_of(chunk) + slot(g, t);
      multiply_rows<Tile>(sums, low_sums, words + warp_pixel / 16 * kPieceWords,
                          words + kDepth * Tile::kPixels + warp_filter / 16 * kPieceWords);
      ahead[i].split_into(words_of(chunk + 1), most);
      load(ahead[i]);
      __syncthreads();  // all have split the next rows, and have left these
    }
  }

#pragma unroll
  for (int p = 0; p < Tile::kProducts; ++p) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {  // 8 filters of two pixels
      const int product = i / 4, e = i % 4, filter = warp_filter + product / 2 * 16 + 4 * t + e % 2 * 2 + product % 2;
      const int at = Tile::place(filter, Tile::pixel(warp_pixel / 16 + p, g, e / 2));
      shared[at] = joined_sum<1>(sums[p][product][e], low_sums[p][product][e]);
    }
  }
#pragma unroll
  for (int e = 0; e < 2; ++e) {  // not negative, so their bits have their order
    atomicMax(reinterpret_cast<int*>(most_of_pixels) + of_x.pixel(e), __float_as_int(most[e]));
  }
  if constexpr (Tile::kSplits > 1) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }

  // A thread finishes runs of 4 pixels of a filter, or of the filters whose outputs are neighbours in a row of y.
  constexpr int kSide = Layer::kSide, kRunsAcross = Tile::kPixels / kRun, kShare = Tile::kBlockFilters / Tile::kSplits;
#pragma unroll 1
  for (int i = threadIdx.x; i < kShare / kSide * kRunsAcross; i += Tile::kThreads) {
    const int of_filter = rank * kShare + i / kRunsAcross * kSide, of_pixel = i % kRunsAcross * kRun;
    const int filter = first_filter + of_filter, pixel = first_pixel + of_pixel;
    if (filter >= kFilters || pixel >= pixels) continue;
    Vector<float, kRun> totals[kSide], largest = load_vector<kRun>(most_of_pixels + of_pixel);
#pragma unroll
    for (int side = 0; side < kSide; ++side) totals[side] = load_vector<kRun>(shared + Tile::place(of_filter + side, of_pixel));
    if constexpr (Tile::kSplits > 1) {
#pragma unroll
      for (int side = 0; side < kSide; ++side) totals[side] = {};
#pragma unroll
      for (unsigned other = 0; other < Tile::kSplits; ++other) {
        Vector<float, kRun> parts[kSide];
#pragma unroll
        for (int side = 0; side < kSide; ++side) parts[side] = as_run(read_remote(shared + Tile::place(of_filter + side, of_pixel), other));
        const Vector<float, kRun> larges = as_run(read_remote(most_of_pixels + of_pixel, other));
#pragma unroll
        for (int k = 0; k < kRun; ++k) {
#pragma unroll
          for (int side = 0; side < kSide; ++side) totals[side].value[k] += parts[side].value[k];
          largest.value[k] = fmaxf(largest.value[k], larges.value[k]);
        }
      }
    }
    const float offset = bias[filter / kSquare];
    float scale[kSide];
#pragma unroll
    for (int side = 0; side < kSide; ++side) scale[side] = scales[filter + side];
    auto output = [&](int k, int side, float of_added) {
      const float total = totals[side].value[k];
      const bool exact = exact_sum(total, __float_as_int(largest.value[k]));
      const float sum = exact ? total * scale[side] : plain_sum(x, filters, scales, pixel + k, filter + side);
      return activate<kActivation>(sum + offset + of_added);
    };
    if constexpr (Layer::kOutWidth % kRun == 0 || (kSide == 1 && Layer::kOutPlane % kRun == 0)) {
      const size_t place = Pixel(pixel).place(filter);
      Vector<T, kRun> outputs[kSide] = {};
      if constexpr (kAdds) outputs[0] = load_vector<kRun>(added + place);
#pragma unroll
      for (int at = 0; at < kRun * kSide; ++at) {
        T& to = outputs[at / kRun].value[at % kRun];
        to = output(at / kSide, at % kSide, to);
      }
#pragma unroll
      for (int side = 0; side < kSide; ++side) store_vector(y + place + side * kRun, outputs[side]);
    } else {
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        if (pixel + k >= pixels) continue;
        const size_t place = Pixel(pixel + k).place(filter);
#pragma unroll
        for (int side = 0; side < kSide; ++side) y[place + side] = output(k, side, kAdds ? added[place] : 0.0f);
      }
    }
  }
  if constexpr (Tile::kSplits > 1) {  // the others have read this block's memory
    cluster_arrive_relaxed();
    cluster_wait();
  }
}
