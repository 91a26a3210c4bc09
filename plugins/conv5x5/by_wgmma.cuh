// 5x5 convolution of one channel, pooled, at float accuracy by wgmma (wgmma.cuh), Hopper's own instruction for its tensor cores;
// mma.sync keeps them only 60% busy. The split of floats and its guard are in conv5x5/mma_parts.cuh.
//
// Thread mapping. A unit is 16 quads, as in conv5x5/by_mma.cuh, and belongs to a warp; the four warps of a block multiply four units
// together, one of each lane's two quads at a time. Row g of a warp's 16 is the upper left output of lane g's quad, row g + 8 the upper
// right output. The lower outputs are further columns of B: their filters lie one row lower in the same patch of 6 rows, so the
// operands of one patch, 16 registers, serve all four outputs, and the maximum of a window needs no other lane.
//
// K. Columns kx = t < 4 of the patch give the pairs of rows 0-1, 2-3 and 4-5, column kx = 4 gives them to t = 0, 1, 2; t = 3 repeats
// the first. Taps outside a filter have weight zero: the guard ensures that every pixel multiplied here is finite.
//
// Three products in one sum: hi hi + lo hi' + hi lo', where hi' and lo' are 2^-12 of the weights' halves. Numbers so small that this
// loses bits of them (kMergedSpan below the largest weight) take the other way: sums of the two corrections, times 2^-12, plus hi hi.
#pragma once

#include "conv5x5/by_mma.cuh"
#include "wgmma.cuh"

constexpr int kWgmmaWarps = 4;
constexpr int kWgmmaThreads = 32 * kWgmmaWarps;
constexpr int kWgmmaImages = 4;   // of a tile: their units fill four warps, whatever their number
constexpr int kMergedSpan = 18;   // binary orders of magnitude of the weights that keep 20 bits in one sum

template <typename Shape_>
struct WgmmaPlan : MmaPlan<Shape_, float, true, kWgmmaWarps, kWgmmaImages> {
  using Base = MmaPlan<Shape_, float, true, kWgmmaWarps, kWgmmaImages>;
  static_assert(Shape_::kChannels == 1 && Shape_::kPooled);
  static constexpr int kColumns = 2 * 8 * Base::kFilterTiles;   // upper outputs' filters, lower outputs' filters
  static constexpr int kSums = kColumns / 2;                    // of a lane
  static constexpr unsigned kStepBytes = kColumns * 32;         // 16 taps
  static constexpr unsigned kSetBytes = 2 * kStepBytes;
  static constexpr unsigned kFilterBytes = 3 * kSetBytes;       // hi | lo or lo' | hi'
  static constexpr int kSharedBytes = kFilterBytes + Base::kPairBytes + Base::kStagedBytes;
};

// The filters as B: see wgmma.cuh for the order of columns and taps.
template <typename Plan>
__device__ __forceinline__ void make_columns(unsigned char* columns, const float* w, float factor, bool merged) {
  using Shape = typename Plan::Shape;
  for (int i = threadIdx.x; i < Plan::kColumns * 4; i += Plan::kThreads) {
    const int t = i % 4, column = i / 4, lower = column / (Plan::kColumns / 2), filter = column % (Plan::kColumns / 2);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int x = r < 3 ? t : 4, first = 2 * (r < 3 ? r : t) - lower;
      __half hi[2], lo[2], hi_small[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int row = first + k;
        const bool covers = filter < Shape::kFilters && row >= 0 && row < kFilterSize;
        const float value = covers ? w[filter * kTaps + row * kFilterSize + x] * factor : 0.0f;
        hi[k] = __float2half_rn(value);
        lo[k] = merged ? __float2half_rn(value - __half2float(hi[k])) : low_half(value, hi[k]);
        hi_small[k] = __float2half_rn(__half2float(hi[k]) * kLowUnit);
      }
      unsigned char* to = columns + r / 2 * Plan::kStepBytes + column / 8 * kWgmmaNextColumns + r % 2 * kWgmmaNextK +
                          column % 8 * 16 + t * 4;
      *reinterpret_cast<unsigned*>(to) = pack(hi[0], hi[1]);
      *reinterpret_cast<unsigned*>(to + Plan::kSetBytes) = pack(lo[0], lo[1]);
      *reinterpret_cast<unsigned*>(to + 2 * Plan::kSetBytes) = pack(hi_small[0], hi_small[1]);
    }
  }
}

// One quad's patch as A: `column` is the address of its pair (0, t), `last` that of this lane's pair in column 4.
__device__ __forceinline__ void load_patch(unsigned (&words)[8], unsigned column, unsigned last, unsigned pitch) {
#pragma unroll
  for (int r = 0; r < 8; ++r) words[r] = load_shared((r < 6 ? column + 2 * pitch * (r / 2) : last) + 4 * (r % 2));
}

// a times one set of filters, both steps.
template <bool kAdd, int kSums>
__device__ __forceinline__ void multiply_set(float (&sums)[kSums], const unsigned (&a)[8], unsigned long long set,
                                             unsigned step_bytes) {
  wgmma_multiply<kAdd>(sums, a, set);
  wgmma_multiply<true>(sums, a + 4, set + step_bytes / 16);
}

// Four units, one a warp; `exists`: this warp's is one. `pairs` is the shared address of its image's first pair.
template <typename Plan, Activation kActivation, bool kMerged>
__device__ __forceinline__ void multiply_units(unsigned pairs, unsigned columns, const float* bias, float scale, int index,
                                               bool exists, float* image_out) {
  constexpr unsigned kPitchBytes = 4 * Plan::kPitch;
  constexpr int kSums = Plan::kSums, kTiles = Plan::kFilterTiles;
  const int lane = threadIdx.x % 32, t = lane % 4;
  Unit<Plan> unit(pairs, index, lane);
  const unsigned to_last = 4 * (4 - t) + (t == 1 ? 2 : t == 2 ? 4 : 0) * kPitchBytes;
  const unsigned long long hi = wgmma_operand(columns), lo = hi + Plan::kSetBytes / 16, hi_small = lo + Plan::kSetBytes / 16;
  float tops[2][kTiles][2];
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    unsigned a_hi[8], a_lo[8];
    const unsigned column = unit.column[q];
    load_patch(a_hi, column, column + to_last, kPitchBytes);
    load_patch(a_lo, column + Plan::kLowBytes, column + Plan::kLowBytes + to_last, kPitchBytes);
    float sums[kSums] = {};
    wgmma_begin();
    multiply_set<false>(sums, a_lo, kMerged ? hi_small : hi, Plan::kStepBytes);
    multiply_set<true>(sums, a_hi, lo, Plan::kStepBytes);
    if constexpr (!kMerged) {
      wgmma_finish(sums);
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] *= kLowUnit;
      wgmma_begin();
    }
    multiply_set<true>(sums, a_hi, hi, Plan::kStepBytes);
    wgmma_finish(sums);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int f = 0; f < 2; ++f) {
        const float* upper = sums + 4 * j + f;
        const float* lower = upper + kSums / 2;
        tops[q][j][f] = max_nan(max_nan(upper[0], upper[2]), max_nan(lower[0], lower[2]));
      }
    }
  }
  if (!exists) return;
  TileWriter<Plan, kActivation> writer(unit, image_out, bias, scale, t);
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const float2 offset = *reinterpret_cast<const float2*>(bias + j * 8 + 2 * t);
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      const float both[2] = {tops[0][j][f], tops[1][j][f]};
      writer.write_tops(both, j, f, f == 0 ? offset.x : offset.y);
    }
    writer.next_tile();
  }
}

// All units of a tile of images.
template <typename Plan, Activation kActivation, bool kMerged>
__device__ __forceinline__ void multiply_tile(unsigned pairs, unsigned columns, const float* bias, float scale, int images,
                                              float* out) {
  const int units = images * Plan::kUnits, warp = threadIdx.x / 32;
#pragma unroll 1
  for (int first = 0; first < units; first += Plan::kWarps) {
    const int unit = min(first + warp, units - 1), image = unit / Plan::kUnits;
    multiply_units<Plan, kActivation, kMerged>(pairs + image * Plan::kImagePairBytes, columns, bias, scale, unit % Plan::kUnits,
                                               first + warp < units, out + static_cast<size_t>(image) * Plan::kOutSize);
  }
}

// Block b takes the images from n b / grid on, kImages at a time.
template <typename Shape, Activation kActivation>
__device__ __forceinline__ void conv5x5_by_wgmma(const float* __restrict__ x, const float* __restrict__ w,
                                                 const float* __restrict__ bias, int n, float* __restrict__ y) {
  using Plan = WgmmaPlan<Shape>;
  extern __shared__ uint4 shared[];
  __shared__ alignas(16) float biases[(Plan::kFilterTiles + 1) * 8];
  __shared__ MagnitudeRange ranges[Plan::kWarps];
  unsigned char* const columns = reinterpret_cast<unsigned char*>(shared);
  unsigned* const pairs = reinterpret_cast<unsigned*>(columns + Plan::kFilterBytes);
  float* const staged = reinterpret_cast<float*>(pairs + Plan::kPairBytes / 4);
  const unsigned columns_address = shared_address(columns);
  const unsigned pairs_address = columns_address + Plan::kFilterBytes;

  int image = static_cast<int>(static_cast<long long>(n) * blockIdx.x / gridDim.x);
  const int end = static_cast<int>(static_cast<long long>(n) * (blockIdx.x + 1) / gridDim.x);
  auto fetch = [&](int first) {
    if (first < end) fetch_tile<Plan>(staged, x + static_cast<size_t>(first) * Shape::kImageSize, min(Plan::kImages, end - first));
  };
  fetch(image);

  for (int i = threadIdx.x; i < Shape::kFilters; i += Plan::kThreads) biases[i] = bias[i];
  const MagnitudeRange weight_range = block_range<Plan::kWarps>(w, Shape::kFilters * kTaps, ranges);
  const Scaling weight_scaling = scaling_of(weight_range);
  const bool merged = scaling_of(weight_range, kMergedSpan).usable;
  make_columns<Plan>(columns, w, weight_scaling.factor, merged);
  publish_to_units();

#pragma unroll 1
  for (; image < end; image += Plan::kImages) {
    const int images = min(Plan::kImages, end - image);
    copy_async_wait_all();
    __syncthreads();  // the tile and the columns are there for all, and all have left the pairs of the tile before
    const Scaling scaling = scaling_of(block_range<Plan::kWarps>(staged, images * Shape::kImageSize, ranges));
    make_pairs<Plan>(pairs, staged, images, scaling.factor);
    __syncthreads();
    fetch(image + Plan::kImages);

    const float scale = scaling.inverse * weight_scaling.inverse;
    float* out = y + static_cast<size_t>(image) * Plan::kOutSize;
    if (!scaling.usable || !weight_scaling.usable) {
      multiply_tile_plainly<Plan, kActivation>(x + static_cast<size_t>(image) * Shape::kImageSize, w, bias, images, out);
    } else if (merged) {
      multiply_tile<Plan, kActivation, true>(pairs_address, columns_address, biases, scale, images, out);
    } else {
      multiply_tile<Plan, kActivation, false>(pairs_address, columns_address, biases, scale, images, out);
    }
  }
}
