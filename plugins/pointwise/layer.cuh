// The layer that a pointwise convolution is compiled for, its weights as they are packed, and what becomes of its sums.
//
// x [n, C, H, W], weights (w [K, C, 1, 1], packed), bias [K], y [n, K, H, W], in fp16 or bfloat16. Pixels are counted over all images.
#pragma once

#include "mma.cuh"
#include "windows/activation.cuh"

using T = TYPE_T;
constexpr int kChannels = AXIS_C, kFilters = AXIS_K, kPlane = AXIS_H * AXIS_W;
constexpr int kDepth = 16, kFilterBlock = 16;  // channels and filters of a product
constexpr int kSteps = ceil_div(kChannels, kDepth), kFilterBlocks = ceil_div(kFilters, kFilterBlock);
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
static_assert(sizeof(T) == 2);

// A lane's numbers of 16 filters at 16 channels: it has filters g and g + 8, and channels t, t + 4, t + 8 and t + 12 (mma.cuh: a0 ... a3).
using Weights = Vector<unsigned, 4>;

// Where a weight is among those of all lanes.
__device__ __forceinline__ int weight_at(int filter, int channel) {
  const int lane = filter % 8 * 4 + channel % 4;
  const int of_lane = channel % kDepth / 8 * 4 + filter % kFilterBlock / 8 * 2 + channel % 8 / 4;
  return ((filter / kFilterBlock * kSteps + channel / kDepth) * 32 + lane) * 8 + of_lane;
}

// Tiles of up to kMostBlocks blocks of 16 filters: as few as there can be, and of as equal a size.
template <int kMostBlocks>
struct FilterTiles {
  static constexpr int kFilterTiles = ceil_div(kFilterBlocks, kMostBlocks), kBlocks = ceil_div(kFilterBlocks, kFilterTiles);

  // A block of the tile that begins with `first`. Instead of one that does not exist any will do: its sums are not stored.
  static __device__ __forceinline__ int block(int first, int i) {
    return kFilterTiles * kBlocks == kFilterBlocks ? first + i : smaller(first + i, kFilterBlocks - 1);
  }
};

// What a launch is given; `other` is added before the activation.
struct Layer {
  const T* __restrict__ x;
  const T* __restrict__ other;
  const T* __restrict__ weights;
  const T* __restrict__ bias;
  const int n;
  T* __restrict__ y;

  __device__ __forceinline__ Weights weights_of(int block, int step) const {
    const T* const from = weights + ((block * kSteps + step) * 32 + static_cast<int>(threadIdx.x) % 32) * 8;
    return load_vector<4>(reinterpret_cast<const unsigned*>(from));
  }
};

// Pixels of a lane, in pieces of neighbours that lie in one image and are aligned: where each piece is in its first plane.
// Of images with an odd number of pixels a piece is one; there neighbouring lanes have neighbouring pixels, and a lane every eighth.
constexpr bool kSingle = kPlane % 2 != 0;

template <int kCount, int kPlanes>
struct Pixels {
  static constexpr int kAtOnce = kPlane % kCount == 0 ? kCount : divisor_of(kPlane), kPieces = kCount / kAtOnce;
  int place[kPieces];
  bool exists[kPieces];

  // pixel_at(i): the lane's i-th pixel.
  template <typename PixelAt>
  __device__ __forceinline__ Pixels(int n, const PixelAt& pixel_at) {
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int pixel = pixel_at(piece * kAtOnce), image = pixel / kPlane;
      exists[piece] = image < n;
      place[piece] = exists[piece] ? image * (kPlanes * kPlane) + pixel % kPlane : 0;
    }
  }
};

// Sums of one filter at 8 pixels become outputs.
template <bool kAdds>
__device__ __forceinline__ void finish(const Layer& layer, const float (&sums)[8], const Pixels<8, kFilters>& pixels, int filter) {
  using Of = Pixels<8, kFilters>;
  using Piece = Vector<T, Of::kAtOnce>;
  if (filter >= kFilters) return;
  const float of_filter = to_float(layer.bias[filter]);
  Piece added[Of::kPieces] = {};
#pragma unroll
  for (int piece = 0; piece < Of::kPieces; ++piece) {
    if constexpr (kAdds) {
      if (pixels.exists[piece]) added[piece] = load_vector<Of::kAtOnce>(layer.other + pixels.place[piece] + filter * kPlane);
    }
  }
#pragma unroll
  for (int piece = 0; piece < Of::kPieces; ++piece) {
    if (!pixels.exists[piece]) continue;
    Piece outputs;
#pragma unroll
    for (int i = 0; i < Of::kAtOnce; ++i) {
      const float sum = sums[piece * Of::kAtOnce + i] + of_filter;
      outputs.value[i] = activated<kActivation, T>(kAdds ? sum + to_float(added[piece].value[i]) : sum);
    }
    store_vector(layer.y + pixels.place[piece] + filter * kPlane, outputs);
  }
}
