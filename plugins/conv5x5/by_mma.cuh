// 5x5 convolution on tensor cores (mma.m16n8k16): image rows as A, filters as B, sums in float.
//
// Thread mapping. A unit is 16 quads (conv5x5/quad.cuh), 64 positions, of one image: four 16-row A tiles. Their rows are ordered so that
// lane (g = lane / 4, t = lane % 4) gets all four outputs of two quads for filters 2t and 2t + 1: pooling needs no exchange between
// lanes, and storing rows needs one between two lanes. A warp computes a unit for all filters, 8 at a time. Blocks are persistent: they
// prepare the filters once, and fetch the next images while they compute.
//
// K without padding. The 25 taps become 32 so that every operand register is one word `pair[y][x] = (v[y][x], v[y + 1][x])`
// of shared memory: columns kx = t < 4 give the pairs ky = 0-1, 2-3 and 3-4, column kx = 4 gives the same pairs to t = 0, 1, 2
// and pair 0-1 again to t = 3. A tap that occurs twice has half its weight in each place. So no pixel outside the 5x5
// window is ever multiplied, not even by zero: an infinity there would make a NaN.
//
// Neighbouring lanes t read neighbouring words; Plan::kPitch then keeps bank conflicts low (see there).
#pragma once

#include "conv5x5/mma_parts.cuh"

// A word of shared memory. Volatile, so that each operand register is loaded where the product needs it: operands overlap, and without
// volatile the compiler loads a word once and then moves it into place, with four moves per product.
__device__ __forceinline__ unsigned load_shared(unsigned address) {
  unsigned word;
  asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}

// The A operands of one quad and channel: outputs 0, 1 in products [0], 2, 3 in products [1] (as rows g and g + 8).
template <typename Shape, int kPitch>
struct QuadOperand {
  unsigned word[2][8];

  // `column` and `last`: addresses of the quad's first pair in columns kx = t and kx = 4 (there already at this lane's pair).
  __device__ __forceinline__ void load(unsigned column, unsigned last) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        const int i = 2 * half + r % 2;
        const unsigned offset = 4 * (Shape::output_row(i) * kPitch + Shape::output_column(i));
        constexpr unsigned kPairRow[4] = {0, 2, 3, 0};
        word[half][r] = load_shared((r < 6 ? column : last) + offset + 4 * kPitch * kPairRow[r / 2]);
      }
    }
  }

  template <typename Operand>
  __device__ __forceinline__ void multiply(float (&sums)[4], int half, int step, const uint4& b) const {
    const unsigned* a = word[half] + 4 * step;
    mma_16x8x16<Operand>(sums, a[0], a[1], a[2], a[3], step == 0 ? b.x : b.z, step == 0 ? b.y : b.w);
  }
};

struct Fragments {
  uint4 hi, lo;
};

// A lane's facts about its unit: quads 2 g and 2 g + 1.
template <typename Plan>
struct Unit {
  using Shape = typename Plan::Shape;
  unsigned column[2], last[2];  // shared addresses of its quads' first pairs in columns kx = t and kx = 4, channel 0
  int out_row[2], out_column[2];
  bool exists[2];

  __device__ __forceinline__ Unit(unsigned pairs, int unit, int lane) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const int quad = unit * kQuadsPerUnit + 2 * g + q;
      exists[q] = Shape::kQuads % kQuadsPerUnit == 0 || quad < Shape::kQuads;
      const int safe = exists[q] ? quad : Shape::kQuads - 1;
      const int quad_row = safe / Shape::kQuadsAcross, quad_column = safe % Shape::kQuadsAcross;
      const unsigned first = pairs + 4 * (quad_row * Shape::kRowStep * Plan::kPitch + quad_column * Shape::kColumnStep);
      column[q] = first + 4 * t;
      last[q] = first + 4 * (4 + (t == 1 ? 2 : t == 2 ? 3 : 0) * Plan::kPitch);
      out_row[q] = quad_row;
      out_column[q] = quad_column * (Shape::kPooled ? 1 : kQuadOutputs);
    }
  }
};

// One unit of one image, all filters. `pairs` is the shared address of the image's first pair; `scale` undoes both scalings.
template <typename Plan, Activation kActivation>
__device__ __forceinline__ void multiply_unit(unsigned pairs, const uint4* fragments, const float* bias, float scale, int index,
                                              typename Plan::T* image_out) {
  using Shape = typename Plan::Shape;
  using Operand = typename Plan::Operand;
  constexpr int kTilesAtOnce = Plan::kTilesAtOnce;
  const int lane = threadIdx.x % 32, t = lane % 4;
  const Unit<Plan> unit(pairs, index, lane);

  QuadOperand<Shape, Plan::kPitch> hi[2], lo[2];
  auto load_channel = [&](int channel) {
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const unsigned offset = channel * Plan::kChannelPairBytes;
      hi[q].load(unit.column[q] + offset, unit.last[q] + offset);
      if constexpr (Plan::kSplit) {
        lo[q].load(unit.column[q] + offset + Plan::kLowBytes, unit.last[q] + offset + Plan::kLowBytes);
      }
    }
  };
  if constexpr (Shape::kChannels == 1) load_channel(0);

  // B fragments of a channel and filter tile; the next ones are fetched before they are needed.
  auto load_fragments = [&](int channel, int tile) {
    const uint4* b = fragments + ((channel * Plan::kFilterTiles + min(tile, Plan::kFilterTiles - 1)) * Plan::kHalves * 32 + lane);
    return Fragments{b[0], Plan::kSplit ? b[32] : uint4{}};
  };

  TileWriter<Plan, kActivation> writer(unit, image_out, bias, scale, t);
  Fragments next = load_fragments(0, 0);
#pragma unroll(Plan::kTileUnroll)
  for (int first_tile = 0; first_tile < Plan::kFilterTiles; first_tile += kTilesAtOnce) {
    float sums[kTilesAtOnce][4][4] = {}, corrections[kTilesAtOnce][Plan::kSplit ? 4 : 1][4] = {};
#pragma unroll 1
    for (int channel = 0; channel < Shape::kChannels; ++channel) {
      if constexpr (Shape::kChannels > 1) load_channel(channel);
#pragma unroll
      for (int j = 0; j < kTilesAtOnce; ++j) {
        const Fragments b = next;
        const bool last = j + 1 == kTilesAtOnce;
        const bool last_channel = channel + 1 == Shape::kChannels;
        next = load_fragments(last ? (last_channel ? 0 : channel + 1) : channel,
                              first_tile + (last ? (last_channel ? kTilesAtOnce : 0) : j + 1));
        // Eight independent sums take turns: a product waits for the one before it on the same sum.
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          if constexpr (Plan::kSplit) {
#pragma unroll
            for (int m = 0; m < 4; ++m) lo[m / 2].template multiply<Operand>(corrections[j][m], m % 2, step, b.hi);
          }
#pragma unroll
          for (int m = 0; m < 4; ++m) hi[m / 2].template multiply<Operand>(sums[j][m], m % 2, step, b.hi);
        }
        if constexpr (Plan::kSplit) {
#pragma unroll
          for (int step = 0; step < 2; ++step) {
#pragma unroll
            for (int m = 0; m < 4; ++m) hi[m / 2].template multiply<Operand>(corrections[j][m], m % 2, step, b.lo);
          }
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kTilesAtOnce; ++j) {
      if constexpr (Plan::kSplit) {
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
          for (int r = 0; r < 4; ++r) sums[j][m][r] = fmaf(corrections[j][m][r], kLowUnit, sums[j][m][r]);
        }
      }
      writer.write(sums[j], first_tile + j);
    }
  }
}

// Plain multiply-adds for a tile whose numbers cannot be split; slow and rare, so a function of its own that takes no registers here.
template <typename Plan, Activation kActivation>
__device__ __noinline__ void multiply_tile_plainly(const typename Plan::T* x, const typename Plan::T* w,
                                                   const typename Plan::T* bias, int images, typename Plan::T* y) {
  using Shape = typename Plan::Shape;
  for (int item = threadIdx.x; item < images * Shape::kQuads; item += Plan::kThreads) {
    const int image = item / Shape::kQuads, quad = item % Shape::kQuads;
    const int row = quad / Shape::kQuadsAcross, column = quad % Shape::kQuadsAcross;
    const auto* corner = x + image * Shape::kImageSize + row * Shape::kRowStep * Shape::kWidth + column * Shape::kColumnStep;
    for (int filter = 0; filter < Shape::kFilters; ++filter) {
      float sums[1][kQuadOutputs] = {};
      for (int c = 0; c < Shape::kChannels; ++c) {
        const auto* taps = w + (filter * Shape::kChannels + c) * kTaps;
        accumulate_quad<Shape>(sums, corner + c * Shape::kHeight * Shape::kWidth, column * Shape::kColumnStep,
                               [&](int tap, int) { return to_float(taps[tap]); });
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
  __shared__ alignas(16) float biases[(Plan::kFilterTiles + 1) * 8];
  __shared__ MagnitudeRange ranges[Plan::kWarps];
  uint4* const fragments = shared;
  unsigned* const pairs = reinterpret_cast<unsigned*>(fragments + Plan::kFragmentBytes / 16);
  const unsigned pairs_address = shared_address(pairs);
  auto* const staged = reinterpret_cast<typename Plan::T*>(pairs + Plan::kPairBytes / 4);

  const int tiles = ceil_div(n, Plan::kImages);
  int tile = blockIdx.x;
  auto images_of = [&](int which) { return min(Plan::kImages, n - which * Plan::kImages); };
  auto input_of = [&](int which) { return x + static_cast<size_t>(which) * Plan::kTileSize; };
  if (tile < tiles) fetch_tile<Plan>(staged, input_of(tile), images_of(tile));

  for (int i = threadIdx.x; i < Shape::kFilters; i += Plan::kThreads) biases[i] = to_float(bias[i]);
  Scaling weight_scaling = {1.0f, 1.0f, true};
  if constexpr (Plan::kSplit) {
    weight_scaling = scaling_of(block_range<Plan::kWarps>(w, Shape::kFilters * Shape::kChannels * kTaps, ranges));
  }
  make_fragments<Plan>(fragments, w, weight_scaling.factor);

  for (int round = 0; tile < tiles; tile += gridDim.x, ++round) {
    if (!Shape::kPooled && round % Plan::kTilesAhead == 0) prefetch_tiles<Plan>(x, tile + gridDim.x, n);
    const int images = images_of(tile);
    copy_async_wait_all();
    __syncthreads();  // the tile has arrived for all, and all have left the pairs of the one before
    Scaling scaling = {1.0f, 1.0f, true};
    if constexpr (Plan::kSplit) scaling = scaling_of(block_range<Plan::kWarps>(staged, images * Shape::kImageSize, ranges));
    make_pairs<Plan>(pairs, staged, images, scaling.factor);
    __syncthreads();
    const int next = tile + gridDim.x;
    if (next < tiles) fetch_tile<Plan>(staged, input_of(next), images_of(next));

    auto* out = y + static_cast<size_t>(tile) * Plan::kImages * Shape::kFilters * Shape::kPlaneSize;
    if (scaling.usable && weight_scaling.usable) {
      const float scale = scaling.inverse * weight_scaling.inverse;
      for (int unit = threadIdx.x / 32; unit < images * Plan::kUnits; unit += Plan::kWarps) {
        const int image = unit / Plan::kUnits;
        multiply_unit<Plan, kActivation>(pairs_address + image * Plan::kImagePairBytes, fragments, biases, scale,
                                         unit % Plan::kUnits,
                                         out + static_cast<size_t>(image) * Shape::kFilters * Shape::kPlaneSize);
      }
    } else {
      multiply_tile_plainly<Plan, kActivation>(input_of(tile), w, bias, images, out);
    }
  }
}
