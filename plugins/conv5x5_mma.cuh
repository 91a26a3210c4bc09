// 5x5 convolution on tensor cores (mma.m16n8k16): image rows as A, filters as B, sums in float.
//
// Thread mapping. A unit is 16 quads (conv5x5_quad.cuh), 64 positions, of one image: four 16-row A tiles whose rows are dealt
// so that lane (g = lane / 4, t = lane % 4) ends up with all four outputs of two quads for filters 2t and 2t + 1: pooling and
// wide stores then need no exchange between lanes. A warp takes a unit and goes through the filters, 8 at a time. Blocks are
// persistent: they prepare the filters once and then fetch the next images while they compute.
//
// K without padding. The 25 taps become 32 so that every operand register is one word `pair[y][x] = (v[x], v[x + 1])` of
// shared memory: rows ky = t < 4 give the pairs kx = 0-1, 2-3 and 3-4, row ky = 4 gives the same pairs to t = 0, 1, 2 and
// pair 0-1 again to t = 3. A tap that occurs twice has half its weight in each place. So no pixel outside the 5x5 window is
// ever multiplied, not even by zero: an infinity there would make a NaN.
#pragma once

#include "conv5x5_mma_parts.cuh"

// The words of A that one lane needs of one quad and channel.
template <typename Shape>
struct QuadWords {
  static constexpr int kRows = Shape::kPooled ? 2 : 1;     // rows of outputs
  static constexpr int kSpan = Shape::kPooled ? 5 : 7;     // words of a row that the pairs 0-1, 2-3, 3-4 of its outputs touch
  unsigned row[kRows][kSpan];                              // row ky = t
  unsigned last[kQuadOutputs];                             // row ky = 4

  template <int kWordStride>
  __device__ __forceinline__ void load(const unsigned* base, const unsigned* base_last, int pitch) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kSpan; ++i) row[r][i] = base[(r * pitch + i) * kWordStride];
    }
#pragma unroll
    for (int i = 0; i < kQuadOutputs; ++i) {
      last[i] = base_last[(Shape::output_row(i) * pitch + Shape::output_column(i)) * kWordStride];
    }
  }

  // sums += (outputs 2 * half and 2 * half + 1 of this quad, in rows g and g + 8) * b
  template <typename Operand>
  __device__ __forceinline__ void multiply(float (&sums)[4], int half, const uint4& b) const {
    const int i = 2 * half, j = 2 * half + 1;
    const int ri = Shape::output_row(i), rj = Shape::output_row(j);
    const int ci = Shape::output_column(i), cj = Shape::output_column(j);
    mma_16x8x16<Operand>(sums, row[ri][ci], row[rj][cj], row[ri][ci + 2], row[rj][cj + 2], b.x, b.y);
    mma_16x8x16<Operand>(sums, row[ri][ci + 3], row[rj][cj + 3], last[i], last[j], b.z, b.w);
  }
};

// Both halves of a split operand lie side by side in shared memory; without a split there is one.
template <typename Shape, bool kSplit>
struct QuadOperand {
  QuadWords<Shape> hi, lo;
  __device__ __forceinline__ void load(const unsigned* base, const unsigned* base_last, int pitch) {
    hi.template load<kSplit ? 2 : 1>(base, base_last, pitch);
    if constexpr (kSplit) lo.template load<2>(base + 1, base_last + 1, pitch);
  }
};

// One unit of one image, all filters. `pairs` is the image's first pair; `scale` undoes the scaling of both operands.
template <typename Plan, Activation kActivation>
__device__ __forceinline__ void multiply_unit(const unsigned* pairs, const uint4* fragments, const float* bias, float scale,
                                              int unit, typename Plan::T* image_out) {
  using Shape = typename Plan::Shape;
  using Operand = typename Plan::Operand;
  constexpr int kStride = Plan::kHalves;  // words a pair
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;

  int rows[2], columns[2], bases[2];
  bool exists[2];
#pragma unroll
  for (int q = 0; q < 2; ++q) {
    const int quad = unit * kQuadsPerUnit + (Shape::kPooled ? 2 * g + q : 8 * q + g);
    const int safe = min(quad, Shape::kQuads - 1);
    exists[q] = Shape::kQuads % kQuadsPerUnit == 0 || quad < Shape::kQuads;
    rows[q] = safe / Shape::kQuadsAcross;
    columns[q] = safe % Shape::kQuadsAcross;
    bases[q] = (rows[q] * Shape::kRowStep * Plan::kPitch + columns[q] * Shape::kColumnStep) * kStride;
  }
  const int row_offset = t * Plan::kPitch * kStride;
  const int last_offset = (4 * Plan::kPitch + (t == 1 ? 2 : t == 2 ? 3 : 0)) * kStride;
  constexpr int kChannelWords = Shape::kHeight * Plan::kPitch * kStride;

  QuadOperand<Shape, Plan::kSplit> a[2];
  auto load_channel = [&](int channel) {
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const unsigned* base = pairs + channel * kChannelWords + bases[q];
      a[q].load(base + row_offset, base + last_offset, Plan::kPitch);
    }
  };
  if constexpr (Shape::kChannels == 1) load_channel(0);

#pragma unroll 1
  for (int first_tile = 0; first_tile < Plan::kFilterTiles; first_tile += Plan::kTilesAtOnce) {
    float sums[Plan::kTilesAtOnce][4][4] = {}, corrections[Plan::kTilesAtOnce][Plan::kSplit ? 4 : 1][4] = {};
#pragma unroll 1
    for (int channel = 0; channel < Shape::kChannels; ++channel) {
      if constexpr (Shape::kChannels > 1) load_channel(channel);
#pragma unroll
      for (int j = 0; j < Plan::kTilesAtOnce; ++j) {
        const int tile = first_tile + j;
        if (Plan::kFilterTiles % Plan::kTilesAtOnce != 0 && tile >= Plan::kFilterTiles) break;
        const uint4* b = fragments + ((channel * Plan::kFilterTiles + tile) * Plan::kHalves * 32 + lane);
        const uint4 b_hi = b[0];
#pragma unroll
        for (int m = 0; m < 4; ++m) a[m / 2].hi.template multiply<Operand>(sums[j][m], m % 2, b_hi);
        if constexpr (Plan::kSplit) {
          const uint4 b_lo = b[32];
#pragma unroll
          for (int m = 0; m < 4; ++m) a[m / 2].lo.template multiply<Operand>(corrections[j][m], m % 2, b_hi);
#pragma unroll
          for (int m = 0; m < 4; ++m) a[m / 2].hi.template multiply<Operand>(corrections[j][m], m % 2, b_lo);
        }
      }
    }

#pragma unroll
    for (int j = 0; j < Plan::kTilesAtOnce; ++j) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int filter = (first_tile + j) * 8 + 2 * t + k;
        if (filter >= Shape::kFilters) continue;
        float outputs[2][kQuadOutputs];
#pragma unroll
        for (int q = 0; q < 2; ++q) {
#pragma unroll
          for (int i = 0; i < kQuadOutputs; ++i) {
            const int m = 2 * q + i / 2, register_ = 2 * (i % 2) + k;
            outputs[q][i] = sums[j][m][register_];
            if constexpr (Plan::kSplit) outputs[q][i] = fmaf(corrections[j][m][register_], kLowUnit, outputs[q][i]);
          }
        }
        store_quads<Shape, kActivation>(image_out + static_cast<size_t>(filter) * Shape::kPlaneSize, rows, columns, exists,
                                        outputs, scale, bias[filter]);
      }
    }
  }
}

// Plain multiply-adds for a tile whose numbers cannot be split; slow and rare, so out of the way of the registers.
template <typename Plan, Activation kActivation>
__device__ __noinline__ void multiply_tile_plainly(const typename Plan::T* x, const typename Plan::T* w,
                                                   const typename Plan::T* bias, int images, typename Plan::T* y) {
  using Shape = typename Plan::Shape;
  for (int item = threadIdx.x; item < images * Shape::kQuads; item += kMmaThreads) {
    const int image = item / Shape::kQuads, quad = item % Shape::kQuads;
    const int row = quad / Shape::kQuadsAcross, column = quad % Shape::kQuadsAcross;
    const auto* corner = x + image * Shape::kImageSize + row * Shape::kRowStep * Shape::kWidth + column * Shape::kColumnStep;
    for (int filter = 0; filter < Shape::kFilters; ++filter) {
      float sums[1][kQuadOutputs] = {};
      for (int c = 0; c < Shape::kChannels; ++c) {
        float patch[Shape::kPatchHeight][Shape::kPatchWidth];
        load_patch<Shape>(patch, corner + c * Shape::kHeight * Shape::kWidth, column * Shape::kColumnStep);
        const auto* taps = w + (filter * Shape::kChannels + c) * kTaps;
        accumulate_quad<Shape>(sums, patch, [&](int tap, int) { return to_float(taps[tap]); });
      }
      auto* plane = y + (static_cast<size_t>(image) * Shape::kFilters + filter) * Shape::kPlaneSize;
      store_quad<Shape, kActivation>(plane, row, column, sums[0], to_float(bias[filter]));
    }
  }
}

template <typename Plan, Activation kActivation>
__device__ __forceinline__ void conv5x5_by_mma(const typename Plan::T* __restrict__ x, const typename Plan::T* __restrict__ w,
                                               const typename Plan::T* __restrict__ bias, int n,
                                               typename Plan::T* __restrict__ y) {
  using Shape = typename Plan::Shape;
  extern __shared__ uint4 shared[];
  __shared__ float biases[Plan::kFilterTiles * 8];
  __shared__ MagnitudeRange ranges[kMmaWarps];
  uint4* const fragments = shared;
  unsigned* const pairs = reinterpret_cast<unsigned*>(fragments + Plan::kFragmentBytes / 16);
  auto* const staged = reinterpret_cast<typename Plan::T*>(pairs + Plan::kPairBytes / 4);

  const int tiles = ceil_div(n, Plan::kImages);
  int tile = blockIdx.x;
  auto images_of = [&](int which) { return min(Plan::kImages, n - which * Plan::kImages); };
  auto input_of = [&](int which) { return x + static_cast<size_t>(which) * Plan::kTileSize; };
  if (tile < tiles) fetch_tile<Plan>(staged, input_of(tile), images_of(tile));

  for (int i = threadIdx.x; i < Shape::kFilters; i += kMmaThreads) biases[i] = to_float(bias[i]);
  Scaling weight_scaling = {1.0f, 1.0f, true};
  if constexpr (Plan::kSplit) {
    weight_scaling = scaling_of(block_range(w, Shape::kFilters * Shape::kChannels * kTaps, ranges));
  }
  make_fragments<Plan>(fragments, w, weight_scaling.factor);

  for (; tile < tiles; tile += gridDim.x) {
    const int images = images_of(tile);
    wait_for_fetch();
    __syncthreads();  // the tile has arrived for all, and all have left the pairs of the one before
    Scaling scaling = {1.0f, 1.0f, true};
    if constexpr (Plan::kSplit) scaling = scaling_of(block_range(staged, images * Shape::kImageSize, ranges));
    make_pairs<Plan>(pairs, staged, images, scaling.factor);
    __syncthreads();
    const int next = tile + gridDim.x;
    if (next < tiles) fetch_tile<Plan>(staged, input_of(next), images_of(next));

    auto* out = y + static_cast<size_t>(tile) * Plan::kImages * Shape::kFilters * Shape::kPlaneSize;
    if (scaling.usable && weight_scaling.usable) {
      const float scale = scaling.inverse * weight_scaling.inverse;
      for (int unit = threadIdx.x / 32; unit < images * Plan::kUnits; unit += kMmaWarps) {
        const int image = unit / Plan::kUnits;
        multiply_unit<Plan, kActivation>(pairs + image * Plan::kImagePairWords, fragments, biases, scale,
                                         unit % Plan::kUnits,
                                         out + static_cast<size_t>(image) * Shape::kFilters * Shape::kPlaneSize);
      }
    } else {
      multiply_tile_plainly<Plan, kActivation>(input_of(tile), w, bias, images, out);
    }
  }
}
