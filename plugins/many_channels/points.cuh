// The convolution of many channels by wgmma (wgmma.cuh) where an output reads one pixel: with 1x1 filters, and the transposed convolution of
// layer.cuh. A product of matrices, in floats: pixels of all images that are read, in the order of x, by channels, times channels by
// filters. Three products of fp16 numbers stand for one of floats, as in tensor_core.cuh; hi hi is summed alone over a stage's channels.
//
// Mapping: a block stays and takes tile after tile, of 64 or 128 filters. Its first warpgroup lets a ring of stages be copied: up to 32
// channels of the pixels as they are, and of the filters as they are packed. The others, one or two, multiply 64 pixels each. A lane loads
// what it multiplies, splits it in registers, and takes the filters from shared memory (as linear/wgmma.cu does with rows).
// Bytes: x once for each 128 filters, and the filters once for each 64 or 128 pixels, from L2; y once.
//
// A pixel whose largest x is too small to be split, and each sum that is not finite, is computed again by plain multiply-adds.
#pragma once

#include "copies.cuh"
#include "many_channels/layer.cuh"
#include "split_floats/stages.cuh"
#include "wgmma.cuh"

constexpr int kLoadRegisters = 40;  // of a thread
static_assert(kTaps == 1 && Layer::kPad == 0);

// A tile of kGroups warpgroups, and its stages in shared memory.
template <int kGroups_>
struct Points {
  static constexpr int kGroups = kGroups_, kThreads = kRole * (1 + kGroups), kPixels = 64 * kGroups;
  static constexpr int kBlocks = kFilters > kFilterBlock ? 2 : 1, kTileFilters = kBlocks * kFilterBlock;
  static constexpr int kDepth = kChannels > 16 ? 32 : 16, kEights = kDepth / kEight, kSteps = ceil_div(kChannels, kDepth);
  static constexpr int kFilterTiles = ceil_div(kFilters, kTileFilters), kFilterBlocks = ceil_div(kFilters, kFilterBlock);
  // Neighbours of one plane that are copied at once.
  static constexpr int kAtOnce = Layer::kStride > 1 ? 1 : divisor_of(Layer::kPlane);
  static constexpr int kPitch = kPixels + 4;  // of a channel, in floats: the lanes of a warp read 8 pixels of 4 channels from different banks
  // Bytes: x; a block of filters at 8 channels, hi or lo; all of hi, or of lo.
  static constexpr unsigned kXBytes = kDepth * kPitch * 4, kBlockBytes = kFilterBlock * 16, kPartBytes = kEights * kBlocks * kBlockBytes;
  static constexpr int kStages = kGroups == 2 ? 6 : 8;
  static constexpr unsigned kStageBytes = kXBytes + 2 * kPartBytes, kSharedBytes = kStages * (kStageBytes + 16 /* barriers */);

  static __device__ __forceinline__ int tiles(int n) { return ceil_div(n * Layer::kOutPlane, kPixels) * kFilterTiles; }
  static __device__ __forceinline__ int first_pixel(int tile) { return tile / kFilterTiles * kPixels; }
  static __device__ __forceinline__ int first_filter(int tile) { return tile % kFilterTiles * kTileFilters; }
};

template <typename Points, bool kAdds>
struct PointsLayer : Tensors {
  // The warpgroup that fills the stages.
  __device__ __forceinline__ void fill(const Stages<Points, 4 * Points::kGroups>& ring) const {
    constexpr int kPieces = Points::kPixels / Points::kAtOnce, kChannelsAtOnce = kRole / kPieces;
    const int thread = threadIdx.x, piece = thread % kPieces, first_channel = thread / kPieces;
    Turn<Points> turn;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < Points::tiles(n); tile += gridDim.x) {
      const Pixel pixel(Points::first_pixel(tile) + piece * Points::kAtOnce);
      const bool exists = pixel.image < n;
      const int in_plane = Layer::kStride > 1 ? pixel.row * Layer::kWidth + pixel.column : pixel.at;
      const T* const of_pixel = x + (exists ? pixel.image * (kChannels * Layer::kPlane) + in_plane : 0);
#pragma unroll 1
      for (int step = 0; step < Points::kSteps; ++step) {
        const unsigned stage = ring.address + turn.stage * Points::kStageBytes, full = ring.full(turn.stage);
        wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
        if (thread == 0) expect_bytes(full, 2 * Points::kPartBytes);
        copy_filters(stage + Points::kXBytes, Points::first_filter(tile) / kFilterBlock, step * Points::kEights, full);
#pragma unroll
        for (int channel = first_channel; channel < Points::kDepth; channel += kChannelsAtOnce) {
          const int of_all = step * Points::kDepth + channel;
          const bool inside = exists && (kChannels % Points::kDepth == 0 || of_all < kChannels);
          copy_async<Points::kAtOnce * 4>(stage + (channel * Points::kPitch + piece * Points::kAtOnce) * 4,
                                          of_pixel + (inside ? of_all * Layer::kPlane : 0), inside ? Points::kAtOnce * 4 : 0);  // none: zeros
        }
        arrive_with_copies(full);
        turn.advance();
      }
    }
  }

  // Filters lie in shared memory as [hi or lo][8 channels][filter][channel]; a thread begins to copy one block of them at 8 channels.
  __device__ __forceinline__ void copy_filters(unsigned to, int first_block, int first_eight, unsigned barrier) const {
    if (threadIdx.x >= 2 * Points::kEights * Points::kBlocks) return;
    const int block = threadIdx.x % Points::kBlocks, eight = threadIdx.x / Points::kBlocks % Points::kEights;
    const int part = threadIdx.x / (Points::kBlocks * Points::kEights);
    // Beyond the channels x is zero, and sums beyond the filters are not stored: any number will do.
    const int of_block = smaller(first_block + block, Points::kFilterBlocks - 1), of_eight = smaller(first_eight + eight, kChannelEights - 1);
    const __half* const from = filters + filter_at(of_block, of_eight, 0) + part * kFilterBlock * kEight;
    begin_bulk_copy(to + threadIdx.x * Points::kBlockBytes, from, Points::kBlockBytes, barrier);
  }

  // A warpgroup that multiplies its 64 pixels of each tile.
  __device__ __forceinline__ void multiply(const Stages<Points, 4 * Points::kGroups>& ring) const {
    constexpr int kSums = Points::kTileFilters / 2, kProducts = Points::kDepth / 16;
    const int warp = threadIdx.x / 32 - kRole / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int of_tile = warp * 16 + g;  // and the pixel 8 further
    Turn<Points> turn;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < Points::tiles(n); tile += gridDim.x) {
      float sums[kSums] = {}, low_sums[kSums] = {}, most[2] = {};
#pragma unroll 1
      for (int step = 0; step < Points::kSteps; ++step) {
        wait_for_bytes(ring.full(turn.stage), turn.parity);
        const unsigned stage = turn.stage * Points::kStageBytes;
        const float* const of_x = reinterpret_cast<const float*>(ring.stages + stage) + 2 * t * Points::kPitch + of_tile;
        const unsigned long long of_filters = wgmma_operand<Points::kBlocks * Points::kBlockBytes, 128>(ring.address + stage + Points::kXBytes);
        float part[kSums];
        unsigned hi[kProducts][4], lo[kProducts][4];
#pragma unroll
        for (int product = 0; product < kProducts; ++product) {
          // While these are loaded and split, the tensor cores have the products before.
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float* const pair = of_x + (product * 16 + i / 2 * 8) * Points::kPitch + i % 2 * 8;
            split(pair[0], pair[Points::kPitch], hi[product][i], lo[product][i]);
            most[i % 2] = fmaxf(most[i % 2], fmaxf(fabsf(pair[0]), fabsf(pair[Points::kPitch])));
          }
          const unsigned long long b_hi = of_filters + product * (2 * Points::kBlocks * Points::kBlockBytes / 16);
          const unsigned long long b_lo = b_hi + Points::kPartBytes / 16;
          wgmma_begin();
          if (product == 0) {
            wgmma_multiply<false>(part, hi[product], b_hi);
          } else {
            wgmma_multiply<true>(part, hi[product], b_hi);
          }
          if (Points::kSteps == 1 && product == 0) {
            wgmma_multiply<false>(low_sums, hi[product], b_lo);  // zeros before it would stand between products
          } else {
            wgmma_multiply<true>(low_sums, hi[product], b_lo);
          }
          wgmma_multiply<true>(low_sums, lo[product], b_hi);
        }
        wgmma_finish(part);
        wgmma_finish_with(low_sums);
        if (lane == 0) arrive(ring.empty(turn.stage));
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[i] += part[i];
        turn.advance();
      }
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] = joined_sum<kProducts>(sums[i], low_sums[i]);
      int largest[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        most[i] = fmaxf(most[i], __shfl_xor_sync(kAllLanes, most[i], 1));
        largest[i] = __float_as_int(fmaxf(most[i], __shfl_xor_sync(kAllLanes, most[i], 2)));
      }
      finish(sums, largest, Points::first_pixel(tile) + of_tile, Points::first_filter(tile), 2 * t);
    }
  }

  // A lane has sums of `pixel` and of the one 8 further, of pairs of filters 8 apart, from `of_lane` of the tile's first on: they become outputs.
  template <int kSums>
  __device__ __forceinline__ void finish(const float (&sums)[kSums], const int (&largest)[2], int pixel, int first_filter, int of_lane) const {
    constexpr int kPairs = Points::kFilterTiles > 1 ? kSums / 4 : ceil_div(kFilters, 8);
    constexpr int kTogether = 8;  // pairs of which the loads are under way at once: no branch is between them
    const int filter = first_filter + of_lane;
    const Pixel of[2] = {Pixel(pixel), Pixel(pixel + 8)};
    const bool exists[2] = {of[0].image < n, of[1].image < n};
    float zero[2] = {};  // NaN where a sum is not finite
#pragma unroll
    for (int first = 0; first < kPairs; first += kTogether) {
      if (Points::kFilterTiles > 1 && first_filter + first * 8 >= kFilters) break;
      constexpr int kLast = kFilters - 2;
      Vector<T, 2> scale[kTogether], offset[kTogether], outputs[kTogether][2];
#pragma unroll
      for (int j = 0; j < kTogether && first + j < kPairs; ++j) {
        const int of_pair = smaller(filter + (first + j) * 8, kLast);
        scale[j] = load_vector<2>(scales + of_pair);
        offset[j] = offsets(of_pair);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if constexpr (kAdds) outputs[j][i] = exists[i] ? load(added, of[i], of_pair) : Vector<T, 2>{};
        }
      }
#pragma unroll
      for (int j = 0; j < kTogether && first + j < kPairs; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float sum = sums[4 * (first + j) + 2 * i + e];
            zero[i] = fmaf(sum, 0.0f, zero[i]);
            const float with_bias = fmaf(sum, scale[j].value[e], offset[j].value[e]);
            float& output = outputs[j][i].value[e];
            output = activate<kActivation>(kAdds ? with_bias + output : with_bias);
          }
          const int of_pair = filter + (first + j) * 8;
          if (exists[i] && of_pair <= kLast) store(of[i], of_pair, outputs[j][i]);
        }
      }
    }
    if (exact_sum(zero[0], largest[0]) && exact_sum(zero[1], largest[1])) return;
    each_inexact(sums, [&](int i) { return largest[i / 2 % 2]; }, [&](int index) {
      const int of_sum = filter + index / 4 * 8 + index % 2;
      const Pixel of(pixel + index / 2 % 2 * 8);
      if (of.image >= n || of_sum >= kFilters) return;
      const float sum = plain_sum(x, filters, scales, pixel + index / 2 % 2 * 8, of_sum) + bias[of_sum / kSquare];
      const size_t place = of.place(of_sum);
      y[place] = activate<kActivation>(kAdds ? sum + added[place] : sum);
    });
  }

  // The biases of two neighbouring filters.
  __device__ __forceinline__ Vector<T, 2> offsets(int filter) const {
    if constexpr (kSquare == 1) return load_vector<2>(bias + filter);
    return {bias[filter / kSquare], bias[filter / kSquare]};
  }

  // Outputs of two neighbouring filters: of two planes, or, transposed, neighbours in a row.
  static __device__ __forceinline__ Vector<T, 2> load(const T* from, const Pixel& of, int filter) {
    const T* const first = from + of.place(filter);
    if constexpr (kSquare > 1) return load_vector<2>(first);
    return {first[0], first[Layer::kOutPlane]};
  }
  __device__ __forceinline__ void store(const Pixel& of, int filter, const Vector<T, 2>& outputs) const {
    T* const first = y + of.place(filter);
    if constexpr (kSquare > 1) {
      store_vector(first, outputs);
    } else {
      first[0] = outputs.value[0], first[Layer::kOutPlane] = outputs.value[1];
    }
  }
};

template <typename Points, bool kAdds>
__device__ __forceinline__ void many_channels_by_points(unsigned char* memory, const PointsLayer<Points, kAdds>& layer) {
  const Stages<Points, 4 * Points::kGroups> ring(memory);
  constexpr bool kShare = Points::kGroups > 1;  // registers: a block of two warpgroups has enough
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  in_roles<kShare ? kLoadRegisters : 0>([&] { layer.fill(ring); }, [&] { layer.multiply(ring); });
}
