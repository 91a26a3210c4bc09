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
constexpr int kRound = 5 * kRowsATile;  // images whose features wait in shared memory for the linear layers
constexpr bool kFloat = sizeof(TX) != 1;

// ---- shared memory -----------------------------------------------------------------------------------------------------

constexpr int kFeatureStride = kFeatures + kUnitBytes;  // odd numbers of units, so that eight rows share no bank
constexpr int kHidden1Stride = kFc1Tiles * kTileOutputs + kUnitBytes;
constexpr int kHidden2Stride = kFc2Tiles * kTileOutputs + kUnitBytes;
constexpr int kArrivalBytes = kImagePixels * static_cast<int>(sizeof(TX));

constexpr int kBarrierOffset = 0;
constexpr int kArrivalOffset = kBarrierOffset + kWarps * 8;
constexpr int kPixelOffset = kArrivalOffset + (kFloat ? kWarps * kArrivalBytes : 0);
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
  const unsigned pair = map + at.pair, one = map + at.one;
#pragma unroll
  for (int low = 0; low < kConv1Halves; low += 2) {
    unsigned x[3][2];
    int sum[kPool][kConv1Tiles][4];
    if (low + 1 < kConv1Halves) {
      load_conv1_tile<true>(x, pixels + at.pixels, low, low + 1);
      multiply_conv1_tile(sum, x, weight, start);
      store_conv1_tile<true>(pair, one, low, low + 1, sum, scale);
    } else {
      load_conv1_tile<false>(x, pixels + at.pixels, low, low);
      multiply_conv1_tile(sum, x, weight, start);
      store_conv1_tile<false>(pair, one, low, low, sum, scale);
    }
  }
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

// 16 images (rows from `rows` on) x 16 outputs: sum[i / 2][...], columns 8 * (i / 2) + lane % 4 * 2 and the next.
template <int kSteps, int kStride>
__device__ __forceinline__ void linear(int (&sum)[2][4], unsigned rows, const unsigned* weight, const int4& start, int lane) {
  const unsigned source = rows + (lane & 15) * kStride + (lane >> 4) * kUnitBytes;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    unsigned a[4];
    load_matrices(a, source + step * kStepInputs);
    const unsigned* w = weight + 4 * step;
    if (step == 0) {
      multiply(sum[0], start, a[0], a[1], a[2], a[3], w[0], w[2]);
      multiply(sum[1], start, a[0], a[1], a[2], a[3], w[1], w[3]);
    } else {
      multiply_add(sum[0], a[0], a[1], a[2], a[3], w[0], w[2]);
      multiply_add(sum[1], a[0], a[1], a[2], a[3], w[1], w[3]);
    }
  }
}

// The scales of a lane's four outputs in a tile: columns 8 * (i / 2) + lane % 4 * 2 + i % 2.
__device__ __forceinline__ void load_linear_scales(Scale (&scale)[4], const float* numbers, int pairs, int tile, int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    scale[i] = scale_of(numbers, pairs + 2 * (tile * kTileOutputs + i / 2 * 8 + lane % 4 * 2 + i % 2));
  }
}

template <int kStride>
__device__ __forceinline__ void store_hidden(unsigned rows, const int (&sum)[2][4], const Scale (&scale)[4], int tile, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const unsigned two = bytes(requantized(sum[part][2 * half], scale[2 * part]), requantized(sum[part][2 * half + 1], scale[2 * part + 1]));
      store_two(rows + (lane / 4 + 8 * half) * kStride + tile * kTileOutputs + part * 8 + lane % 4 * 2, two);
    }
  }
}

constexpr int kRowWarps1 = kWarps / kFc1Tiles, kRowWarps2 = kWarps / kFc2Tiles;
static_assert(kRowWarps1 >= 1, "a warp owns a tile of outputs");

}  // namespace lenet5_int8

extern "C" __global__ void __launch_bounds__(lenet5_int8::kThreads, 1)
    lenet5_int8_tensor_core(const TX* __restrict__ x, const signed char* __restrict__ weights, const float* __restrict__ numbers, int n,
                      float* __restrict__ y) {
  using namespace lenet5_int8;
  extern __shared__ __align__(16) unsigned char shared[];
  const int thread = threadIdx.x, lane = thread % kLanes, warp = warp_of(thread);
  const int share = (n - 1) / static_cast<int>(gridDim.x) + 1;
  const long long first = static_cast<long long>(blockIdx.x) * share;
  const int count = static_cast<int>(first >= n ? 0 : n - first < share ? n - first : share);
  if (count == 0) return;
  x += first * kImagePixels;
  y += first * kClasses;

  ImageFetch<TX> fetch;
  fetch.init(reinterpret_cast<TX*>(shared + (kFloat ? kArrivalOffset + warp * kArrivalBytes : kPixelOffset + warp * kImageBytes)),
             shared + kBarrierOffset + warp * 8, lane);
  if (warp < count) fetch.start(x + static_cast<long long>(warp) * kImagePixels, lane);
  constexpr int kLine = 128;
  for (int line = blockIdx.x + gridDim.x * thread; line < (kQuads - kFc1First) * kQuadBytes / kLine; line += gridDim.x * kThreads) {
    prefetch_l2(weights + kFc1First * kQuadBytes + line * kLine);
  }
  const unsigned base = shared_address(shared);
  const unsigned pixels = base + kPixelOffset + warp * kImageBytes, map = base + kMapOffset + warp * kMapBytes;
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
        if (next < count) prefetch_image(next_image, lane);
        fetch.wait();
        if constexpr (kFloat) {
          quantize_image(pixels, fetch.buffer, x_scale, x_inverse, lane);
          __syncwarp();
          if (next < count) fetch.start(next_image, lane);
        }
        conv1_image(map, pixels, at1, weight1, scale1, start);
        __syncwarp();
        if constexpr (!kFloat) {
          if (next < count) fetch.start(next_image, lane);
        }
        conv2_image(features + image * kFeatureStride, map, at2, weight2, scale2, start, lane);
        __syncwarp();  // the map is free again
      }
    }

    const int tile1 = warp % kFc1Tiles, row1 = kRowWarps1 - 1 - warp / kFc1Tiles;  // < 0: no part in it
    const bool busy1 = row1 >= 0 && row1 * kRowsATile < images;
    unsigned weight1[4 * kFc1Steps] = {};
    Scale scale1[4] = {};
    if (busy1) {
      load_quads<kFc1Steps>(weight1, weights, kFc1First + tile1 * kFc1Steps, lane);
      load_linear_scales(scale1, numbers, kFc1Pairs, tile1, lane);
    }
    __syncthreads();
#pragma unroll 1
    for (int row = row1 * kRowsATile; busy1 && row < images; row += kRowWarps1 * kRowsATile) {
      int sum[2][4];
      linear<kFc1Steps, kFeatureStride>(sum, features + row * kFeatureStride, weight1, start, lane);
      store_hidden<kHidden1Stride>(hidden1 + row * kHidden1Stride, sum, scale1, tile1, lane);
    }
    const int tile2 = warp % kFc2Tiles, row2 = warp / kFc2Tiles;
    const bool busy2 = row2 < kRowWarps2 && row2 * kRowsATile < images;
    unsigned weight2[4 * kFc2Steps] = {};
    Scale scale2[4] = {};
    if (busy2) {
      load_quads<kFc2Steps>(weight2, weights, kFc2First + tile2 * kFc2Steps, lane);
      load_linear_scales(scale2, numbers, kFc2Pairs, tile2, lane);
    }
    __syncthreads();
#pragma unroll 1
    for (int row = row2 * kRowsATile; busy2 && row < images; row += kRowWarps2 * kRowsATile) {
      int sum[2][4];
      linear<kFc2Steps, kHidden1Stride>(sum, hidden1 + row * kHidden1Stride, weight2, start, lane);
      store_hidden<kHidden2Stride>(hidden2 + row * kHidden2Stride, sum, scale2, tile2, lane);
    }
    unsigned weight3[4 * kFc3Steps] = {};
    float2 pair3[4] = {};
    if (warp * kRowsATile < images) {
      load_quads<kFc3Steps>(weight3, weights, kFc3First, lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pair3[i] = __ldg(reinterpret_cast<const float2*>(numbers + kFc3Pairs) + i / 2 * 8 + lane % 4 * 2 + i % 2);
      }
    }
    __syncthreads();
#pragma unroll 1
    for (int row = warp * kRowsATile; row < images; row += kWarps * kRowsATile) {
      int sum[2][4];
      linear<kFc3Steps, kHidden2Stride>(sum, hidden2 + row * kHidden2Stride, weight3, start, lane);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int image = row + lane / 4 + 8 * half;
        if (image >= images) continue;
        float2* logits = reinterpret_cast<float2*>(y + static_cast<long long>(round + image) * kClasses);
        float value[2][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) value[i / 2][i % 2] = fmaf(sum_of(sum[i / 2][2 * half + i % 2]), pair3[i].x, pair3[i].y);
        logits[lane % 4] = make_float2(value[0][0], value[0][1]);
        if (lane % 4 == 0) logits[4] = make_float2(value[1][0], value[1][1]);
      }
    }
    __syncthreads();  // hidden layers and features are free again
  }
}
