// The convolution of many channels on tensor cores: a product of matrices, of pixels by filters, in floats; sm_80 and newer.
//
// K runs over taps and, within a tap, channels. A block has kPixels pixels (of all images, in the order of y) and kBlockFilters filters.
// kDepth rows of K come to shared memory at a time, by asynchronous copies, kStages - 1 stages ahead: a row of x is the tap's element of
// each pixel, or zero outside the image; a row of weights is contiguous. A warp computes kWarpPixels pixels and 32 filters.
//
// The rows and columns of a product can be any pixels and filters. Lane (g = lane / 4, t = lane % 4) takes pixels 4 g ... 4 g + 3 as rows g
// and g + 8 of two products, and filters 4 g ... 4 g + 3 as column g of four: each operand is loaded in pieces of 16 bytes, without bank
// conflicts since a pitch is 8 modulo 32 words, and results are runs of 4 pixels.
//
// Floats: x = hi + lo with tf32 hi and lo; x w = lo hi + hi lo + hi hi in three products. The tensor cores cut the bits of a sum, so
// the products of kSumDepth rows are summed alone, and these sums are added by ordinary additions. A sum that is not finite may come
// from the split: it is computed again by plain multiply-adds.
#pragma once

#include "copies.cuh"
#include "dense/instructions.cuh"
#include "many_channels/layer.cuh"

constexpr int kSumDepth = 32, kWarpFilters = 32, kRun = 4;

template <int kPixels_, int kBlockFilters_, int kWarpPixels_, int kStages_>
struct Tile {
  static constexpr int kPixels = kPixels_, kBlockFilters = kBlockFilters_, kWarpPixels = kWarpPixels_, kStages = kStages_;
  static constexpr int kWarpsAcross = kBlockFilters / kWarpFilters, kThreads = 32 * kWarpsAcross * (kPixels / kWarpPixels);
  static constexpr int kDepth = kChannels % 16 == 0 ? 16 : 8;
  static constexpr int kChunksOfTap = kChannels / kDepth, kChunks = kTaps * kChunksOfTap, kChunksOfSum = kSumDepth / kDepth;
  static constexpr int kPixelPitch = kPixels + 8, kFilterPitch = kBlockFilters + 8;
  static constexpr int kStageBytes = kDepth * (kPixelPitch + kFilterPitch) * 4, kSharedBytes = kStages * kStageBytes;
  static constexpr int kFilterTiles = ceil_div(kFilters, kBlockFilters);
  static constexpr int kRuns = kWarpPixels / 32;  // of 4 pixels, of a lane
  static_assert(kPixels % 32 == 0 && kBlockFilters % 32 == 0 && kWarpPixels % 32 == 0);
};

// Copies of x by one thread: one pixel, or 4 where neighbouring pixels are neighbours in x.
template <typename Tile>
struct PixelCopies {
  static constexpr bool kWide = Layer::kSize == 1 && Layer::kStride == 1 && Layer::kPad == 0 && Layer::kPlane % 4 == 0;
  static constexpr int kCount = kWide ? 4 : 1, kAcross = Tile::kPixels / kCount, kRowsAtOnce = Tile::kThreads / kAcross;
  static_assert(Tile::kThreads % kAcross == 0 && Tile::kDepth % kRowsAtOnce == 0);

  const T* x;
  const T* corner;  // of the pixel's window, in this thread's first channel; it may lie outside the image
  int row, column;
  unsigned place;

  __device__ __forceinline__ PixelCopies(const T* x_, int first_pixel, int pixels) : x(x_) {
    const int across = threadIdx.x % kAcross * kCount, channel = threadIdx.x / kAcross;
    const bool exists = first_pixel + across < pixels;
    const Pixel pixel(exists ? first_pixel + across : 0);
    corner = x + (static_cast<long long>(pixel.image) * kChannels + channel) * Layer::kPlane + pixel.row * Layer::kWidth + pixel.column;
    row = exists ? pixel.row : Layer::kHeight;  // below the image
    column = pixel.column;
    place = (channel * Tile::kPixelPitch + across) * 4;
  }

  __device__ __forceinline__ void begin(unsigned stage, int chunk) const {
    const int tap = chunk / Tile::kChunksOfTap, channel = chunk % Tile::kChunksOfTap * Tile::kDepth;
    const int i = tap / Layer::kSize, j = tap % Layer::kSize;
    const bool inside = static_cast<unsigned>(row + i) < Layer::kHeight && static_cast<unsigned>(column + j) < Layer::kWidth;
    const T* from = inside ? corner + (channel * Layer::kPlane + i * Layer::kWidth + j) : x;
#pragma unroll
    for (int e = 0; e < Tile::kDepth; e += kRowsAtOnce) {
      copy_async<4 * kCount>(stage + place + e * Tile::kPixelPitch * 4, from + e * Layer::kPlane, inside ? 4 * kCount : 0);
    }
  }
};

template <typename Tile>
__device__ __forceinline__ void copy_filters(unsigned stage, const T* __restrict__ filters, int first_filter, int chunk) {
  constexpr int kPieces = Tile::kBlockFilters / 4, kCopies = Tile::kDepth * kPieces;
#pragma unroll
  for (int e = 0; e < kCopies; e += Tile::kThreads) {
    const int i = e + threadIdx.x, depth = i / kPieces, filter = i % kPieces * 4;
    if (kCopies % Tile::kThreads != 0 && i >= kCopies) break;
    const bool exists = first_filter + filter < kFilters;
    const T* from = exists ? filters + (chunk * Tile::kDepth + depth) * kFilters + first_filter + filter : filters;
    copy_async<16>(stage + (depth * Tile::kFilterPitch + filter) * 4, from, exists ? 16 : 0);
  }
}

// hi: the nearest number of 11 bits; lo: the rest, of which the tensor core takes as many again.
__device__ __forceinline__ void split(float value, unsigned& hi, unsigned& lo) {
  hi = (__float_as_uint(value) + 0x1000u) & 0xffffe000u;
  lo = __float_as_uint(__fsub_rn(value, __uint_as_float(hi)));
}

// Sums of a warp: [run][product: pixels 2 p and 2 p + 1 of the run][column: filter of four][as mma.cuh has them].
template <typename Tile>
using TileSums = float[Tile::kRuns][2][4][4];

// Adds the products of a stage; `pixels` and `filters` are this lane's first ones.
template <typename Tile>
__device__ __forceinline__ void multiply_stage(TileSums<Tile>& sums, const float* pixels, const float* filters) {
#pragma unroll
  for (int step = 0; step < Tile::kDepth; step += 8) {
    unsigned b_hi[4][2], b_lo[4][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Vector<float, 4> of = load_vector<4>(filters + (step + 4 * half) * Tile::kFilterPitch);
#pragma unroll
      for (int j = 0; j < 4; ++j) split(of.value[j], b_hi[j][half], b_lo[j][half]);
    }
#pragma unroll
    for (int run = 0; run < Tile::kRuns; ++run) {
      unsigned a_hi[2][4], a_lo[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Vector<float, 4> of = load_vector<4>(pixels + (step + 4 * half) * Tile::kPixelPitch + 32 * run);
#pragma unroll
        for (int i = 0; i < 4; ++i) split(of.value[i], a_hi[i / 2][i % 2 + 2 * half], a_lo[i / 2][i % 2 + 2 * half]);
      }
      // Independent sums take turns: a product waits for the one before it on the same sum.
#pragma unroll
      for (int i = 0; i < 8; ++i) dense::multiply<float>(sums[run][i / 4][i % 4], a_lo[i / 4], b_hi[i % 4]);
#pragma unroll
      for (int i = 0; i < 8; ++i) dense::multiply<float>(sums[run][i / 4][i % 4], a_hi[i / 4], b_lo[i % 4]);
#pragma unroll
      for (int i = 0; i < 8; ++i) dense::multiply<float>(sums[run][i / 4][i % 4], a_hi[i / 4], b_hi[i % 4]);
    }
  }
}

// An output of which the sum on tensor cores is not finite.
__device__ __noinline__ float plain_output(const T* __restrict__ x, const T* __restrict__ filters, float offset, int pixel, int filter) {
  float sums[1] = {};
  plain_sums(sums, x, filters, Pixel(pixel), filter);
  return activate<kActivation>(sums[0] + offset);
}

// `added` is added before the activation if kAdds.
template <typename Tile, bool kAdds>
__device__ __forceinline__ void many_channels_by_mma(unsigned char* shared, const T* __restrict__ x, const T* __restrict__ added,
                                                     const T* __restrict__ filters, const T* __restrict__ bias, int n,
                                                     T* __restrict__ y) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int pixels = n * Layer::kOutPlane, first_pixel = blockIdx.x / Tile::kFilterTiles * Tile::kPixels;
  const int first_filter = blockIdx.x % Tile::kFilterTiles * Tile::kBlockFilters;
  const int warp_pixel = warp / Tile::kWarpsAcross * Tile::kWarpPixels, warp_filter = warp % Tile::kWarpsAcross * kWarpFilters;

  const PixelCopies<Tile> copies(x, first_pixel, pixels);
  const unsigned stages = shared_address(shared);
  auto fetch = [&](int chunk) {
    if (chunk < Tile::kChunks) {
      const unsigned stage = stages + chunk % Tile::kStages * Tile::kStageBytes;
      copies.begin(stage, chunk);
      copy_filters<Tile>(stage + Tile::kDepth * Tile::kPixelPitch * 4, filters, first_filter, chunk);
    }
    copy_async_commit();
  };
#pragma unroll
  for (int chunk = 0; chunk < Tile::kStages - 1; ++chunk) fetch(chunk);

  TileSums<Tile> sums = {}, part = {};
#pragma unroll 1
  for (int chunk = 0; chunk < Tile::kChunks; ++chunk) {
    copy_async_wait<Tile::kStages - 2>();
    __syncthreads();  // the stage has arrived for all, and all have left the one before it
    fetch(chunk + Tile::kStages - 1);
    const float* stage = reinterpret_cast<const float*>(shared + chunk % Tile::kStages * Tile::kStageBytes);
    multiply_stage<Tile>(part, stage + t * Tile::kPixelPitch + warp_pixel + 4 * g,
                         stage + Tile::kDepth * Tile::kPixelPitch + t * Tile::kFilterPitch + warp_filter + 4 * g);
    if ((chunk + 1) % Tile::kChunksOfSum == 0 || chunk + 1 == Tile::kChunks) {
#pragma unroll
      for (int i = 0; i < Tile::kRuns * 32; ++i) {
        sums[i / 32][i / 16 % 2][i / 4 % 4][i % 4] += part[i / 32][i / 16 % 2][i / 4 % 4][i % 4];
        part[i / 32][i / 16 % 2][i / 4 % 4][i % 4] = 0.0f;
      }
    }
  }

  float probe = 0.0f;  // NaN after a sum that is not finite
#pragma unroll
  for (int run = 0; run < Tile::kRuns; ++run) {
    const int pixel = first_pixel + warp_pixel + 32 * run + kRun * g;
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // filters of columns 2 t, then 2 t + 1
      const int filter = first_filter + warp_filter + 8 * t + i, e = i / 4;
      const auto& of = sums[run];
      const float values[kRun] = {of[0][i % 4][e], of[0][i % 4][e + 2], of[1][i % 4][e], of[1][i % 4][e + 2]};
#pragma unroll
      for (int k = 0; k < kRun; ++k) probe = fmaf(values[k], 0.0f, probe);
      if (filter >= kFilters) continue;
      const float offset = bias[filter];
      if constexpr (Layer::kOutPlane % kRun == 0) {
        if (pixel >= pixels) continue;
        const size_t place = Pixel(pixel).place(filter);
        Vector<T, kRun> outputs{};
        if constexpr (kAdds) outputs = load_vector<kRun>(added + place);
#pragma unroll
        for (int k = 0; k < kRun; ++k) outputs.value[k] = activate<kActivation>(values[k] + offset + outputs.value[k]);
        store_vector(y + place, outputs);
      } else {
#pragma unroll
        for (int k = 0; k < kRun; ++k) {
          if (pixel + k >= pixels) continue;
          const size_t place = Pixel(pixel + k).place(filter);
          y[place] = activate<kActivation>(values[k] + offset + (kAdds ? added[place] : 0.0f));
        }
      }
    }
  }
  if (probe != probe) {
#pragma unroll 1
    for (int i = 0; i < Tile::kRuns * kRun * 8; ++i) {
      const int filter = first_filter + warp_filter + 8 * t + i % 8;
      const int pixel = first_pixel + warp_pixel + i / (8 * kRun) * 32 + kRun * g + i / 8 % kRun;
      if (filter >= kFilters || pixel >= pixels) continue;
      const size_t place = Pixel(pixel).place(filter);
      y[place] = plain_output(x, filters, bias[filter] + (kAdds ? added[place] : 0.0f), pixel, filter);
    }
  }
}
