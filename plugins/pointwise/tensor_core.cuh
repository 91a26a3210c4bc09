// The pointwise convolution on tensor cores: filters by channels, times channels by pixels, as images have them.
//
// Mapping: a warp has up to 64 filters at 32 pixels. kDeep warps divide the channels of one such tile, and kAcross tiles of neighbouring
// pixels are a block. Neighbouring blocks have the same pixels and further filters.
//
// Nothing goes through shared memory but sums that are divided. The order of pixels in a product is free, so a lane takes, of four neighbouring
// pixels, one for each of four products: it loads its operands of x in pieces of 8 bytes. Then its sums of a filter belong to 8 neighbouring
// pixels, and it stores 16 bytes. Weights are packed as lanes have them, 16 bytes each.
// Loads are kAhead steps of 16 channels ahead.
// Bytes: x once for each tile of filters, weights once for each 32 pixels of a warp, mostly from L1 and L2; y once.
#pragma once

#include "pointwise/layer.cuh"

constexpr int kWarpPixels = 32;

// kMostBlocks: blocks of 16 filters that a warp may have.
template <int kMostBlocks, int kAcross_, int kDeep_, int kAhead_>
struct Tile : FilterTiles<kMostBlocks> {
  using Filters = FilterTiles<kMostBlocks>;
  static constexpr int kAcross = kAcross_, kDeep = kDeep_, kAhead = kAhead_, kThreads = 32 * kAcross * kDeep;
  static constexpr int kWarpSteps = ceil_div(kSteps, kDeep), kPixels = kWarpPixels * kAcross;
  static constexpr int kUnits = 2 * Filters::kBlocks;  // of 8 filters
  static constexpr int kSharedBytes = kDeep == 1 ? 0 : kAcross * kUnits * kDeep * 32 * 8 * 4;
};

// What a lane has of 16 channels: four of them, at its four pixels.
struct Channels {
  Vector<T, 4> of[4];

  template <typename Of>
  __device__ __forceinline__ void load(const T* __restrict__ x, const Of& pixels, int step, bool wanted) {
    const int first = step * kDepth + threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool inside = wanted && (kChannels % kDepth == 0 || first + 4 * i < kChannels);
#pragma unroll
      for (int piece = 0; piece < Of::kPieces; ++piece) {
        Vector<T, Of::kAtOnce> some = {};
        if (inside && pixels.exists[piece]) some = load_vector<Of::kAtOnce>(x + pixels.place[piece] + (first + 4 * i) * kPlane);
#pragma unroll
        for (int e = 0; e < Of::kAtOnce; ++e) of[i].value[piece * Of::kAtOnce + e] = some.value[e];
      }
    }
  }

  // Two channels of one pixel, as an operand has them.
  __device__ __forceinline__ unsigned pair(int first, int pixel) const {
    const unsigned* const a = reinterpret_cast<const unsigned*>(of + first);
    const unsigned* const b = reinterpret_cast<const unsigned*>(of + first + 1);
    return __byte_perm(a[pixel / 2], b[pixel / 2], pixel % 2 ? 0x7632 : 0x5410);
  }
};

template <typename Tile>
struct Operands {
  Weights weights[Tile::kBlocks];
  Channels channels;

  template <typename Of>
  __device__ __forceinline__ void load(const Layer& layer, const Of& pixels, int first_block, int step, bool wanted) {
#pragma unroll
    for (int i = 0; i < Tile::kBlocks; ++i) {
      weights[i] = wanted ? layer.weights_of(Tile::block(first_block, i), step) : Weights{};
    }
    channels.load(layer.x, pixels, step, wanted);
  }

  __device__ __forceinline__ void multiply(float (&sums)[Tile::kBlocks][4][4]) const {
#pragma unroll
    for (int pixel = 0; pixel < 4; ++pixel) {
      const unsigned b0 = channels.pair(0, pixel), b1 = channels.pair(2, pixel);
#pragma unroll
      for (int i = 0; i < Tile::kBlocks; ++i) {
        const unsigned* const a = weights[i].value;
        mma_16x8x16<T>(sums[i][pixel], a[0], a[1], a[2], a[3], b0, b1);
      }
    }
  }
};

// A lane's sums of filter g, or g + 8, of a block, at its 8 pixels.
__device__ __forceinline__ void sums_of(float (&of_filter)[8], const float (&sums)[4][4], int half) {
#pragma unroll
  for (int i = 0; i < 8; ++i) of_filter[i] = sums[i % 4][2 * half + i / 4];
}

template <typename Tile, bool kAdds>
__device__ __forceinline__ void pointwise(unsigned char* memory, const Layer& layer) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int across = warp / Tile::kDeep, deep = warp % Tile::kDeep;
  const int first_block = blockIdx.x % Tile::kFilterTiles * Tile::kBlocks;
  const int first_pixel = blockIdx.x / Tile::kFilterTiles * Tile::kPixels + across * kWarpPixels;
  const Pixels<4, kChannels> pixels(layer.n, [&](int i) { return first_pixel + (kSingle ? 8 * i + g : 4 * g + i); });
  const auto load = [&](Operands<Tile>& operands, int turn) {
    const int step = turn * Tile::kDeep + deep;
    operands.load(layer, pixels, first_block, step, turn < Tile::kWarpSteps && (kSteps % Tile::kDeep == 0 || step < kSteps));
  };

  float sums[Tile::kBlocks][4][4] = {};
  Operands<Tile> ahead[Tile::kAhead];
#pragma unroll
  for (int i = 0; i < Tile::kAhead; ++i) load(ahead[i], i);
#pragma unroll 1
  for (int turn = 0; turn < Tile::kWarpSteps; turn += Tile::kAhead) {
#pragma unroll
    for (int i = 0; i < Tile::kAhead; ++i) {
      ahead[i].multiply(sums);
      load(ahead[i], turn + i + Tile::kAhead);
    }
  }

  const Pixels<8, kFilters> outputs(layer.n, [&](int i) { return first_pixel + (kSingle ? i % 4 * 8 + 2 * t + i / 4 : 8 * t + i); });
  const int filter = first_block * kFilterBlock + g;
  float of_filter[8];
  if constexpr (Tile::kDeep == 1) {
#pragma unroll
    for (int unit = 0; unit < Tile::kUnits; ++unit) {
      sums_of(of_filter, sums[unit / 2], unit % 2);
      finish<kAdds>(layer, of_filter, outputs, filter + unit * 8);
    }
  } else {
    // Each warp adds up some filters of all, always in the same order: [across][unit][deep][4 floats of each lane, then 4 more].
    using Floats = Vector<float, 4>;
    Floats* const shared = reinterpret_cast<Floats*>(memory) + across * (Tile::kUnits * Tile::kDeep * 64) + lane;
#pragma unroll
    for (int unit = 0; unit < Tile::kUnits; ++unit) {
      sums_of(of_filter, sums[unit / 2], unit % 2);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* const four = of_filter + 4 * i;
        shared[(unit * Tile::kDeep + deep) * 64 + 32 * i] = {four[0], four[1], four[2], four[3]};
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int unit = deep; unit < Tile::kUnits; unit += Tile::kDeep) {
#pragma unroll
      for (int i = 0; i < 8; ++i) of_filter[i] = 0.0f;
#pragma unroll
      for (int i = 0; i < 2 * Tile::kDeep; ++i) {
        const Floats four = shared[unit * Tile::kDeep * 64 + 32 * i];
#pragma unroll
        for (int e = 0; e < 4; ++e) of_filter[i % 2 * 4 + e] += four.value[e];
      }
      finish<kAdds>(layer, of_filter, outputs, filter + unit * 8);
    }
  }
}
