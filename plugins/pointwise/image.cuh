// The pointwise convolution on tensor cores where an image has few pixels: filters by channels, times channels by pixels of one image.
//
// Mapping: a block has up to 64 filters at all pixels of an image, and its kDeep warps divide the channels. The planes of 16 channels lie one
// behind the other, so a warp copies them to shared memory in pieces of 16 bytes, up to kStages times 16 channels ahead, whatever the number of
// pixels is; a lane takes its operands from there. Weights are packed as lanes have them, 16 bytes each. The outputs of a block lie one
// behind the other too: the sums of all warps are added up in shared memory, and a thread stores 8 outputs, 16 bytes.
// Bytes: x once for each tile of filters, weights once for each image, mostly from L2; y once.
#pragma once

#include "copies.cuh"
#include "pointwise/layer.cuh"

// kMostBlocks: blocks of 16 filters that a block may have.
template <int kMostBlocks, int kDeep_>
struct Image : FilterTiles<kMostBlocks> {
  using Filters = FilterTiles<kMostBlocks>;
  static_assert(kChannels % 8 == 0 && kFilters % 8 == 0);  // pieces are aligned
  static constexpr int kDeep = kDeep_, kThreads = 32 * kDeep;
  static constexpr int kTileFilters = kFilterBlock * Filters::kBlocks, kWarpSteps = ceil_div(kSteps, kDeep), kStages = smaller(kWarpSteps, 4);
  static constexpr int kEights = ceil_div(kPlane, 8);  // of pixels
  static constexpr int kPitch = (kEights | 1) * 8;     // of a filter's sums, in floats: lanes of different g have different banks
  static constexpr int kStageBytes = kDepth * kPlane * 2, kRingBytes = kDeep * kStages * kStageBytes;
  static constexpr int kSharedBytes = larger(kRingBytes, kDeep * kTileFilters * kPitch * 4);
};

template <typename Image, bool kAdds>
__device__ __forceinline__ void pointwise_image(unsigned char* memory, const Layer& layer) {
  const int deep = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int image = blockIdx.x / Image::kFilterTiles, first_block = blockIdx.x % Image::kFilterTiles * Image::kBlocks;
  const T* const x = layer.x + static_cast<size_t>(image) * (kChannels * kPlane);
  const int ring = deep * (Image::kStages * Image::kStageBytes);
  const unsigned address = shared_address(memory) + ring;

  const auto begin_copy = [&](int turn) {
    const int step = turn * Image::kDeep + deep, stage = turn % Image::kStages;
    if (turn < Image::kWarpSteps && step < kSteps) {
      const T* const from = x + step * (kDepth * kPlane);
#pragma unroll
      for (int piece = lane; piece < Image::kStageBytes / 16; piece += 32) {
        const bool exists = kChannels % kDepth == 0 || step * (kDepth * kPlane) + piece * 8 < kChannels * kPlane;
        copy_async<16>(address + stage * Image::kStageBytes + piece * 16, from + (exists ? piece * 8 : 0), exists ? 16 : 0);
      }
    }
    copy_async_commit();
  };
  Weights weights[Image::kBlocks];
  const auto load_weights = [&](int turn) {
    const int step = smaller(turn * Image::kDeep + deep, kSteps - 1);
#pragma unroll
    for (int i = 0; i < Image::kBlocks; ++i) weights[i] = layer.weights_of(Image::block(first_block, i), step);
  };

  // Lanes without a pixel in the last products take the last one: what lies further may be on its way for another step.
  const int last = kPlane % 8 == 0 ? kPlane - 8 + g : smaller(kPlane / 8 * 8 + g, kPlane - 1);
  float sums[Image::kBlocks][Image::kEights][4] = {};
#pragma unroll
  for (int turn = 0; turn < Image::kStages; ++turn) begin_copy(turn);
  load_weights(0);
#pragma unroll 1
  for (int turn = 0; turn < Image::kWarpSteps; ++turn) {
    copy_async_wait<Image::kStages - 1>();
    __syncwarp();
    if (kSteps % Image::kDeep == 0 || turn * Image::kDeep + deep < kSteps) {
      const T* const of_x = reinterpret_cast<const T*>(memory + ring + turn % Image::kStages * Image::kStageBytes) + t * kPlane;
#pragma unroll
      for (int eight = 0; eight < Image::kEights; ++eight) {
        const int pixel = eight == Image::kEights - 1 ? last : eight * 8 + g;
        Vector<T, 2> b[2];
#pragma unroll
        for (int i = 0; i < 4; ++i) b[i / 2].value[i % 2] = of_x[4 * i * kPlane + pixel];
        const unsigned* const words = reinterpret_cast<const unsigned*>(b);
#pragma unroll
        for (int i = 0; i < Image::kBlocks; ++i) {
          const unsigned* const a = weights[i].value;
          mma_16x8x16<T>(sums[i][eight], a[0], a[1], a[2], a[3], words[0], words[1]);
        }
      }
    }
    load_weights(turn + 1);
    __syncwarp();
    begin_copy(turn + Image::kStages);
  }

  copy_async_wait<0>();
  __syncthreads();  // all warps have left their stages
  float* const all = reinterpret_cast<float*>(memory);
  float* const own = all + (deep * Image::kTileFilters + g) * Image::kPitch + 2 * t;
#pragma unroll
  for (int i = 0; i < Image::kBlocks; ++i) {
#pragma unroll
    for (int eight = 0; eight < Image::kEights; ++eight) {
      const float(&of)[4] = sums[i][eight];
      float* const to = own + kFilterBlock * i * Image::kPitch + eight * 8;
      *reinterpret_cast<Vector<float, 2>*>(to) = {of[0], of[1]};
      *reinterpret_cast<Vector<float, 2>*>(to + 8 * Image::kPitch) = {of[2], of[3]};
    }
  }
  __syncthreads();
  const int first_filter = first_block * kFilterBlock, outputs = smaller(Image::kTileFilters, kFilters - first_filter) * kPlane;
  const size_t place = (static_cast<size_t>(image) * kFilters + first_filter) * kPlane;
#pragma unroll 1
  for (int first = 8 * threadIdx.x; first < outputs; first += 8 * Image::kThreads) {
    Vector<T, 8> results = {};
    if constexpr (kAdds) results = load_vector<8>(layer.other + place + first);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int filter = (first + i) / kPlane, pixel = (first + i) % kPlane;
      float sum = to_float(layer.bias[first_filter + filter]);
#pragma unroll
      for (int warp = 0; warp < Image::kDeep; ++warp) sum += all[(warp * Image::kTileFilters + filter) * Image::kPitch + pixel];
      results.value[i] = activated<kActivation, T>(kAdds ? sum + to_float(results.value[i]) : sum);
    }
    store_vector(layer.y + place + first, results);
  }
}
