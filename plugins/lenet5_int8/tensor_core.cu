// LeNet-5 with Q/DQ in one launch, for many images: products of int8 on tensor cores, see parts.cuh for the convolutions.
//
// x [n, 1, 28, 28] TX (int8: quantized pixels, or float), weights and numbers as fragments.py arranges them -> y [n, 10] float.
//
// Mapping. A block computes an equal share of the images, for any grid, in rounds of kRound images. A warp computes the convolutions of
// an image from shared memory with all their weights in registers: sums of 32 bits, pool, scale, round to the next layer's integers.
// Then the block computes the linear layers: a row tile has 16 images, a warp 16 outputs; weights go from L2 into registers once a round.
//
// Bytes: 784 read (int8) and 40 written per image, 56 KB of weights per block.
// What was tried and measured: docs/kernels/lenet5_int8.md.
#include "lenet5_int8/parts.cuh"

using TX = TYPE_TX;

namespace lenet5_int8 {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * kLanes;
constexpr int kRowsATile = 16;
constexpr int kRound = 6 * kRowsATile;  // images whose features wait in shared memory for the linear layers
constexpr bool kFloat = sizeof(TX) != 1;

// ---- shared memory -----------------------------------------------------------------------------------------------------

constexpr int kFeatureStride = kFeatures + kUnitBytes;  // odd numbers of units, so that eight rows share no bank
constexpr int kHidden1Stride = kFc1Tiles * kTileOutputs + kUnitBytes;
constexpr int kHidden2Stride = kFc2Tiles * kTileOutputs + kUnitBytes;
// A warp's next image arrives while it computes one: floats where they wait to be quantized, integers in a second place.
constexpr int kArrivalBytes = kFloat ? kImagePixels * static_cast<int>(sizeof(TX)) : kImageBytes;

constexpr int kBarrierOffset = 0;  // two a warp
constexpr int kArrivalOffset = kBarrierOffset + kWarps * 16;
constexpr int kPixelOffset = kArrivalOffset + kWarps * kArrivalBytes;
constexpr int kMapOffset = kPixelOffset + kWarps * kImageBytes;
constexpr int kFeatureOffset = kMapOffset + kWarps * kMapBytes;
constexpr int kHidden1Offset = kFeatureOffset + kRound * kFeatureStride;
constexpr int kHidden2Offset = kHidden1Offset + kRound * kHidden1Stride;
constexpr int kSharedBytes = kHidden2Offset + kRound * kHidden2Stride;
static_assert(kWarps % 2 == 0, "everything is 16-byte aligned");
ASSERT_LAUNCH(lenet5_int8_tensor_core, kThreads, kSharedBytes);

// ---- convolutions, a warp an image -------------------------------------------------------------------------------------

template <typename Pixel>
__device__ __forceinline__ void quantize_image(unsigned pixels, const Pixel* image, float scale, float inverse, int lane) {
  if (lane >= kFetchLanes) return;
#pragma unroll
  for (int step = 0; step < kFetchSteps; ++step) {
    const int at = step * kFetchPixels + lane * kQuad;
    store_word(pixels + at, quantized(load_quad(image + at), scale, inverse));
  }
}

__device__ __forceinline__ void conv1_image(unsigned map, unsigned pixels, const Conv1Lane& at, const unsigned* weight,
                                            const Scale (&scale)[kConv1Tiles], const int4& start) {
#pragma unroll
  for (int half = 0; half + 1 < kConv1Halves; half += 2) conv1_halves(map, pixels, at, half, half + 1, weight, scale, start);
  conv1_half(map, pixels, at, kConv1Halves - 1, weight, scale, start);
}

__device__ __forceinline__ void conv2_image(unsigned features, unsigned map, const Conv2Lane& at, const unsigned* weight,
                                            const Scale (&scale)[2], const int4& start, int lane) {
  int sum[kConv2Groups][kPool][kPool][4];
#pragma unroll
  for (int row = 0; row < kConv2Rows; ++row) {
#pragma unroll
    for (int group = 0; group < kConv2Groups; ++group) {
      const unsigned shift = map + row * kMapRow + group * kGroupBytes;
      conv2_row(sum[group], row, at.first + shift, at.last + shift, weight, start);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned word =
        bytes(conv2_pooled(sum[0], 2 * half, scale[half]), conv2_pooled(sum[0], 2 * half + 1, scale[half]),
              conv2_pooled(sum[1], 2 * half, scale[half]), conv2_pooled(sum[1], 2 * half + 1, scale[half]));
    store_word(features + ((lane / 4 + 8 * half) * 4 + lane % 4) * kWord, word);
  }
}

// ---- linear layers -----------------------------------------------------------------------------------------------------

// A warp's 16 outputs of a linear layer: the weights as operands, and for the columns 8 * (i / 2) + lane % 4 * 2 + i % 2 their pairs.
template <int kSteps>
struct Dense {
  unsigned weight[4 * kSteps] = {};
  float2 pair[4] = {};

  __device__ __forceinline__ void load(const signed char* weights, const float* numbers, int first, int pairs, int tile, int lane) {
    load_quads<kSteps>(weight, weights, first + tile * kSteps, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pair[i] = __ldg(reinterpret_cast<const float2*>(numbers + pairs) + tile * kTileOutputs + i / 2 * 8 + lane % 4 * 2 + i % 2);
    }
  }

  // kTiles tiles of 16 images, kApart rows from each other: sum[tile][i / 2][...] has columns 8 * (i / 2) + lane % 4 * 2 and the next.
  template <int kTiles, int kApart, int kStride>
  __device__ __forceinline__ void multiply(int (&sum)[kTiles][2][4], unsigned rows, const int4& start, int lane) const {
    const unsigned source = rows + (lane & 15) * kStride + (lane >> 4) * kUnitBytes;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        unsigned a[4];
        load_matrices(a, source + tile * kApart * kStride + step * kStepInputs);
        const unsigned* w = weight + 4 * step;
        if (step == 0) {
          int8::multiply(sum[tile][0], start, a[0], a[1], a[2], a[3], w[0], w[2]);
          int8::multiply(sum[tile][1], start, a[0], a[1], a[2], a[3], w[1], w[3]);
        } else {
          multiply_add(sum[tile][0], a[0], a[1], a[2], a[3], w[0], w[2]);
          multiply_add(sum[tile][1], a[0], a[1], a[2], a[3], w[1], w[3]);
        }
      }
    }
  }

  // The same, scaled and rounded to the next layer's inputs.
  template <int kTiles, int kApart, int kStride, int kNextStride>
  __device__ __forceinline__ void forward(unsigned next, unsigned rows, const int4& start, int lane) const {
    int sum[kTiles][2][4];
    multiply<kTiles, kApart, kStride>(sum, rows, start, lane);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const int(&two)[4] = sum[tile][part];
          store_two(next + (tile * kApart + lane / 4 + 8 * half) * kNextStride + part * 8 + lane % 4 * 2,
                    bytes(requantized(two[2 * half], scale_of(pair[2 * part])), requantized(two[2 * half + 1], scale_of(pair[2 * part + 1]))));
        }
      }
    }
  }

  // All tiles of a warp that has every kWarps-th: together, so that the products of one need not wait for each other.
  template <int kWarps, int kStride, int kNextStride>
  __device__ __forceinline__ void forward_all(unsigned next, unsigned rows, int warp, int images, const int4& start, int lane) const {
    constexpr int kApart = kWarps * kRowsATile, kTiles = kRound / kApart;
    const int row = warp * kRowsATile;
    if (images > kApart) {
      forward<kTiles, kApart, kStride, kNextStride>(next + row * kNextStride, rows + row * kStride, start, lane);
    } else {
      forward<1, kApart, kStride, kNextStride>(next + row * kNextStride, rows + row * kStride, start, lane);
    }
  }
};

constexpr int kRowWarps1 = kWarps / kFc1Tiles, kRowWarps2 = kWarps / kFc2Tiles;
static_assert(kRowWarps1 >= 1 && kRound % (kRowWarps1 * kRowsATile) == 0 && kRound % (kRowWarps2 * kRowsATile) == 0, "whole tiles");

}  // namespace lenet5_int8

extern "C" __global__ void __launch_bounds__(lenet5_int8::kThreads, 1)
    lenet5_int8_tensor_core(const TX* __restrict__ x, const signed char* __restrict__ weights, const float* __restrict__ numbers, int n,
                      float* __restrict__ y) {
  using namespace lenet5_int8;
  extern __shared__ __align__(16) unsigned char shared[];
  const int thread = threadIdx.x, lane = thread % kLanes, warp = warp_of(thread);
  const auto [first, count] = images_of_block(n);
  if (count == 0) return;
  x += first * kImagePixels;
  y += first * kClasses;

  ImageFetch<TX> fetch, other;
  fetch.init(reinterpret_cast<TX*>(shared + kArrivalOffset + warp * kArrivalBytes), shared + kBarrierOffset + warp * 16, lane);
  if constexpr (!kFloat) {
    other.init(reinterpret_cast<TX*>(shared + kPixelOffset + warp * kImageBytes), shared + kBarrierOffset + warp * 16 + 8, lane);
  }
  if (warp < count) fetch.start(x + static_cast<long long>(warp) * kImagePixels, lane);
  constexpr int kLine = 128;
  for (int line = blockIdx.x + gridDim.x * thread; line < (kQuads - kFc1First) * kQuadBytes / kLine; line += gridDim.x * kThreads) {
    prefetch_l2(weights + kFc1First * kQuadBytes + line * kLine);
  }
  const unsigned base = shared_address(shared);
  const unsigned map = base + kMapOffset + warp * kMapBytes;
  const unsigned features = base + kFeatureOffset, hidden1 = base + kHidden1Offset, hidden2 = base + kHidden2Offset;
  const Conv1Lane at1 = conv1_lane(lane);
  const Conv2Lane at2 = conv2_lane(lane);
  const int4 start = first_sums();
  const float x_scale = kFloat ? __ldg(numbers) : 0.0f, x_inverse = kFloat ? __ldg(numbers + 1) : 0.0f;

#pragma unroll 1
  for (int round = 0; round < count; round += kRound) {
    const int images = count - round < kRound ? count - round : kRound;
    {
      unsigned weight1[4 * kConv1Quads], weight2[4 * kConv2Quads];
      load_quads<kConv1Quads>(weight1, weights, 0, lane);
      load_quads<kConv2Quads>(weight2, weights, kConv2First, lane);
      Scale scale1[kConv1Tiles], scale2[2];
      load_conv1_scales(scale1, numbers, lane);
      scale2[0] = scale_of(numbers, kConv2Pairs + 2 * (lane / 4));
      scale2[1] = scale_of(numbers, kConv2Pairs + 2 * (lane / 4 + 8));
#pragma unroll 1
      for (int image = warp; image < images; image += kWarps) {
        const int next = round + (image + kWarps < images ? image + kWarps : kRound + warp);
        const TX* next_image = x + static_cast<long long>(next) * kImagePixels;
        unsigned pixels;
        if constexpr (kFloat) {
          if (next < count) prefetch_image(next_image, lane);
          fetch.wait();
          pixels = base + kPixelOffset + warp * kImageBytes;
          quantize_image(pixels, fetch.buffer, x_scale, x_inverse, lane);
          __syncwarp();
          if (next < count) fetch.start(next_image, lane);
        } else {
          if (next < count) other.start(next_image, lane);
          fetch.wait();
          pixels = shared_address(fetch.buffer);
          const ImageFetch<TX> done = fetch;
          fetch = other;
          other = done;
        }
        conv1_image(map, pixels, at1, weight1, scale1, start);
        __syncwarp();
        conv2_image(features + image * kFeatureStride, map, at2, weight2, scale2, start, lane);
        __syncwarp();  // the map is free again
      }
    }

    // The weights are on their way while the last images are computed.
    const int tile1 = warp % kFc1Tiles, row1 = kRowWarps1 - 1 - warp / kFc1Tiles;  // < 0: no part in it
    const int tile2 = warp % kFc2Tiles, row2 = warp / kFc2Tiles;
    const bool busy1 = row1 >= 0 && row1 * kRowsATile < images, busy2 = row2 < kRowWarps2 && row2 * kRowsATile < images;
    Dense<kFc1Steps> fc1;
    Dense<kFc2Steps> fc2;
    Dense<kFc3Steps> fc3;
    if (busy1) fc1.load(weights, numbers, kFc1First, kFc1Pairs, tile1, lane);
    if (busy2) fc2.load(weights, numbers, kFc2First, kFc2Pairs, tile2, lane);
    __syncthreads();
    if (busy1) {
      fc1.forward_all<kRowWarps1, kFeatureStride, kHidden1Stride>(hidden1 + tile1 * kTileOutputs, features, row1, images, start, lane);
    }
    if (warp * kRowsATile < images) fc3.load(weights, numbers, kFc3First, kFc3Pairs, 0, lane);
    __syncthreads();
    if (busy2) {
      fc2.forward_all<kRowWarps2, kHidden1Stride, kHidden2Stride>(hidden2 + tile2 * kTileOutputs, hidden1, row2, images, start, lane);
    }
    __syncthreads();
#pragma unroll 1
    for (int row = warp * kRowsATile; row < images; row += kWarps * kRowsATile) {
      int sums[1][2][4];
      fc3.multiply<1, 0, kHidden2Stride>(sums, hidden2 + row * kHidden2Stride, start, lane);
      const int(&sum)[2][4] = sums[0];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int image = row + lane / 4 + 8 * half;
        if (image >= images) continue;
        float2* logits = reinterpret_cast<float2*>(y + static_cast<long long>(round + image) * kClasses);
        float value[2][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i / 2][i % 2] = fmaf(sum_of(sum[i / 2][2 * half + i % 2]), fc3.pair[i].x, fc3.pair[i].y);
        logits[lane % 4] = make_float2(value[0][0], value[0][1]);
        if (lane % 4 == 0) logits[4] = make_float2(value[1][0], value[1][1]);
      }
    }
    __syncthreads();  // hidden layers and features are free again
  }
}
