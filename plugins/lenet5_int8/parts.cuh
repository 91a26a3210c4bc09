// What the variants of `lenet5_int8` share: int8 products, rounding to the next layer's integers, and both convolutions of an image.
//
// Operands lie in registers as fragments.py arranges the weights; lane = 4 g + t. A word is four bytes.
//   conv1: a row of the product is a window of 6 x 8 pixels at (2 y, 4 xg), which gives two rows of four outputs in all channels: its
//     words (row, left or right half) are read as the image lies in memory.
//   map: pooled pixels [12][12][6], rows of kMapRow bytes. A row of conv2's input for two neighbouring outputs is nine words of it.
//   conv2: the weights are the 16-row operand, eight pooled outputs of a group the columns.
// The four members of a pooling window lie in one thread's sums, so the pool is taken on integers, before scaling.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/images.cuh"
#include "mma_int8.cuh"

namespace lenet5_int8 {

using namespace lenet5;
using namespace int8;

constexpr int kWord = 4;
constexpr int kQuadBytes = kLanes * 4 * kWord;

// ---- where weights and numbers lie (fragments.py) ------------------------------------------------------------------------

constexpr int kConv1Quads = 5, kConv2Quads = 10;
constexpr int kFc1Tiles = 8, kFc1Steps = 8, kFc2Tiles = 6, kFc2Steps = 4, kFc3Steps = 3;
constexpr int kConv2First = kConv1Quads;  // in quads
constexpr int kFc1First = kConv2First + kConv2Quads;
constexpr int kFc2First = kFc1First + kFc1Tiles * kFc1Steps;
constexpr int kFc3First = kFc2First + kFc2Tiles * kFc2Steps;
constexpr int kQuads = kFc3First + kFc3Steps;
constexpr int kTileOutputs = 16, kStepInputs = 32;
constexpr int kConv1Pairs = 2;            // in numbers, after the scale of x and its inverse
constexpr int kConv2Pairs = kConv1Pairs + 2 * kConv1Channels;
constexpr int kFc1Pairs = kConv2Pairs + 2 * kConv2Channels;
constexpr int kFc2Pairs = kFc1Pairs + 2 * kFc1Tiles * kTileOutputs;
constexpr int kFc3Pairs = kFc2Pairs + 2 * kFc2Tiles * kTileOutputs;
static_assert(kFc1Tiles * kTileOutputs >= kFc1 && kFc2Tiles * kTileOutputs >= kFc2, "a place for each output");

template <int kCount>
__device__ __forceinline__ void load_quads(unsigned* w, const signed char* weights, int first, int lane) {
  const uint4* source = reinterpret_cast<const uint4*>(weights + first * kQuadBytes) + lane;
#pragma unroll
  for (int quad = 0; quad < kCount; ++quad) {
    const uint4 v = __ldg(source + quad * kLanes);
    w[4 * quad] = v.x;
    w[4 * quad + 1] = v.y;
    w[4 * quad + 2] = v.z;
    w[4 * quad + 3] = v.w;
  }
}

// ---- rounding ------------------------------------------------------------------------------------------------------------

// What sums of a channel are multiplied by and what is added, as 128ths.
struct Scale {
  float factor, addend;
};
__device__ __forceinline__ Scale scale_of(float2 pair) { return {pair.x * 0.0078125f, pair.y * 0.0078125f}; }
__device__ __forceinline__ Scale scale_of(const float* numbers, int pair) {
  return scale_of(__ldg(reinterpret_cast<const float2*>(numbers + pair)));
}

// The next layer's integer in the low byte: sum * factor + addend in one rounding, ReLU, round half to even, at most 127. Saturation
// of a product to [0, 1] costs nothing, so ReLU and the upper bound are taken in 128ths; 128 remains to be cut.
__device__ __forceinline__ int requantized(int sum, const Scale& scale) {
  const float part = saturated_fma(__int_as_float(sum) - kMagic, scale.factor, scale.addend);
  return min(__float_as_int(fmaf(part, 128.0f, kMagic)), kMagicBits + 127);
}

__device__ __forceinline__ float sum_of(int sum) { return __int_as_float(sum) - kMagic; }

__device__ __forceinline__ int largest(int a, int b, int c, int d) { return max(max(max(a, b), c), d); }

// The low bytes side by side.
__device__ __forceinline__ unsigned bytes(int a, int b) { return __byte_perm(a, b, 0x0040); }
__device__ __forceinline__ unsigned bytes(int a, int b, int c, int d) { return __byte_perm(bytes(a, b), bytes(c, d), 0x5410); }

// A pixel as QuantizeLinear makes it: x / scale correctly rounded (a step of Markstein's), then to the nearest integer, half to even,
// then cut. Pixels far outside are cut first, so that nothing overflows; NaN counts as the smallest number.
__device__ __forceinline__ int quantized(float x, float scale, float inverse) {
  const float limit = 1024.0f * scale;
  x = fminf(fmaxf(x, -limit), limit);
  const float near = x * inverse;
  const float exact = fmaf(fmaf(-near, scale, x), inverse, near);
  return min(max(__float_as_int(exact + kMagic), kMagicBits - 128), kMagicBits + 127);
}

__device__ __forceinline__ unsigned quantized(const float4& x, float scale, float inverse) {
  return bytes(quantized(x.x, scale, inverse), quantized(x.y, scale, inverse), quantized(x.z, scale, inverse),
               quantized(x.w, scale, inverse));
}

// ---- conv1 ---------------------------------------------------------------------------------------------------------------

constexpr int kImageBytes = kImagePixels + 2 * kUnitBytes;   // a row below the last is read, and multiplied by zeros
constexpr int kMapRow = 80;                                  // bytes; 72 and what keeps rows off each other's banks
constexpr int kMapBytes = kPool1Side * kMapRow;
constexpr int kConv1Tiles = 3;                               // of columns
constexpr int kConv1Singles = 2 * kPool * kConv1Tiles;        // where the registers begin that are no pairs
constexpr int kConv1Halves = 9, kConv1TilesAnImage = 5;      // eight windows each; a tile has two halves, the last tile one

// Where a lane's words of rows 1 and 2, and of rows 0 and 5, of its window lie in the image, and its pair of channels and its single
// channel in the map; all in the first half.
struct Conv1Lane {
  unsigned inner, outer, pair, one;
};
__device__ __forceinline__ Conv1Lane conv1_lane(int lane) {
  const int g = lane / 4, t = lane % 4;
  const unsigned pixel = g / 2 * kMapRow + (2 * (g % 2) + t % 2) * kConv1Channels;
  const unsigned corner = 2 * (g / 2) * kImageSide + (g % 2 + t % 2) * kWord;
  return {corner + (1 + t / 2) * kImageSide, corner + (t < 2 ? 0 : 5) * kImageSide, pixel + (t < 2 ? 0 : 4), pixel + (t < 2 ? 2 : 3)};
}
// The other halves: four rows of windows further down, two windows further right.
__device__ __forceinline__ constexpr unsigned half_pixels(int half) { return half / 3 * 8 * kImageSide + half % 3 * 2 * kWord; }
__device__ __forceinline__ constexpr unsigned half_map(int half) { return half / 3 * 4 * kMapRow + half % 3 * 4 * kConv1Channels; }

__device__ __forceinline__ void load_conv1_scales(Scale (&scale)[kConv1Tiles], const float* numbers, int lane) {
  const bool low = lane % 4 < 2;
  scale[0] = scale_of(numbers, kConv1Pairs + 2 * (low ? 0 : 4));
  scale[1] = scale_of(numbers, kConv1Pairs + 2 * (low ? 1 : 5));
  scale[2] = scale_of(numbers, kConv1Pairs + 2 * (low ? 2 : 3));
}

// Parts 0 and 1 are rows 1 to 4 of a lane's window, part 2 row 0 or 5; of two halves, or of one half and of the same windows a row below.
constexpr int kParts = 3;
__device__ __forceinline__ void load_windows(unsigned (&x)[kParts][2], unsigned inner, unsigned outer, unsigned low, unsigned high) {
  x[0][0] = load_word(inner + low);
  x[0][1] = load_word(inner + high);
  x[1][0] = load_word(inner + low + 2 * kImageSide);
  x[1][1] = load_word(inner + high + 2 * kImageSide);
  x[2][0] = load_word(outer + low);
  x[2][1] = load_word(outer + high);
}

// The sums of the outputs in row dy of the windows.
__device__ __forceinline__ void multiply_windows(int (&sum)[kConv1Tiles][4], const unsigned (&x)[kParts][2], int dy, const unsigned* weight,
                                                 const int4& start) {
#pragma unroll
  for (int tile = 0; tile < kConv1Tiles; ++tile) {
    const unsigned* w = weight + 2 * (dy * kConv1Tiles + tile);
    multiply(sum[tile], start, x[0][0], x[0][1], x[1][0], x[1][1], w[0], w[1]);
  }
#pragma unroll
  for (int tile = 0; tile < kConv1Tiles; ++tile) {
    multiply_add(sum[tile], x[2][0], x[2][1], weight[kConv1Singles + dy * kConv1Tiles + tile]);
  }
}

// Sums over the pool of a half -> a lane's three channels of a pooled pixel.
__device__ __forceinline__ void store_pooled(unsigned pair, unsigned one, const int (&most)[kConv1Tiles], const Scale (&scale)[kConv1Tiles]) {
  store_two(pair, bytes(requantized(most[0], scale[0]), requantized(most[1], scale[1])));
  store_byte(one, requantized(most[2], scale[2]));
}

// Two halves: an image -> pooled pixels of its map.
__device__ __forceinline__ void conv1_halves(unsigned map, unsigned pixels, const Conv1Lane& at, int low, int high, const unsigned* weight,
                                             const Scale (&scale)[kConv1Tiles], const int4& start) {
  unsigned x[kParts][2];
  int sum[kPool][kConv1Tiles][4];
  load_windows(x, pixels + at.inner, pixels + at.outer, half_pixels(low), half_pixels(high));
  multiply_windows(sum[0], x, 0, weight, start);
  multiply_windows(sum[1], x, 1, weight, start);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int most[kConv1Tiles];
#pragma unroll
    for (int tile = 0; tile < kConv1Tiles; ++tile) {
      most[tile] = largest(sum[0][tile][2 * half], sum[0][tile][2 * half + 1], sum[1][tile][2 * half], sum[1][tile][2 * half + 1]);
    }
    const unsigned shift = map + half_map(half == 0 ? low : high);
    store_pooled(at.pair + shift, at.one + shift, most, scale);
  }
}

// One half: the second eight rows of the products are the same windows a row below, whose upper outputs are the lower ones here.
__device__ __forceinline__ void conv1_half(unsigned map, unsigned pixels, const Conv1Lane& at, int half, const unsigned* weight,
                                           const Scale (&scale)[kConv1Tiles], const int4& start) {
  unsigned x[kParts][2];
  int sum[kConv1Tiles][4], most[kConv1Tiles];
  load_windows(x, pixels + at.inner, pixels + at.outer, half_pixels(half), half_pixels(half) + kImageSide);
  multiply_windows(sum, x, 0, weight, start);
#pragma unroll
  for (int tile = 0; tile < kConv1Tiles; ++tile) most[tile] = largest(sum[tile][0], sum[tile][1], sum[tile][2], sum[tile][3]);
  const unsigned shift = map + half_map(half);
  store_pooled(at.pair + shift, at.one + shift, most, scale);
}

// ---- conv2 ---------------------------------------------------------------------------------------------------------------

constexpr int kConv2Groups = 2;                                            // of eight pooled outputs: columns 0, 1 and 2, 3
constexpr unsigned kGroupBytes = 2 * kPool * kConv1Channels;
constexpr int kConv2Rows = kFilterSide + kPool - 1;

// Where a lane's words t and t + 4, and its last word, of the first group's first row lie in the map.
struct Conv2Lane {
  unsigned first, last;
};
__device__ __forceinline__ Conv2Lane conv2_lane(int lane) {
  const int g = lane / 4, t = lane % 4;
  const unsigned first = g / 2 * kPool * kMapRow + g % 2 * kPool * kConv1Channels + t * kWord;
  return {first, first + (t == 0 ? 8 * kWord : 0)};
}

// sum[dy][dx] of a group's eight pooled outputs x 16 channels: what row `row` of their inputs adds.
__device__ __forceinline__ void conv2_row(int (&sum)[kPool][kPool][4], int row, unsigned first, unsigned last,
                                          const unsigned* weight, const int4& start) {
  const unsigned c0 = load_word(first), c1 = load_word(first + 4 * kWord), c2 = load_word(last);
#pragma unroll
  for (int dy = 0; dy < kPool; ++dy) {
    const int ky = row - dy;
    if (ky < 0 || ky >= kFilterSide) continue;
    const unsigned* w = weight + ky * 8;
    if (ky == 0) {
      multiply(sum[dy][0], start, w[0], w[1], w[2], w[3], c0, c1);
      multiply(sum[dy][1], start, w[4], w[5], w[6], w[7], c1, c2);
    } else {
      multiply_add(sum[dy][0], w[0], w[1], w[2], w[3], c0, c1);
      multiply_add(sum[dy][1], w[4], w[5], w[6], w[7], c1, c2);
    }
  }
}

// Pooled value i of a lane: channel lane / 4 + 8 * (i / 2), row lane % 4, the group's column i % 2.
__device__ __forceinline__ int conv2_pooled(const int (&sum)[kPool][kPool][4], int i, const Scale& scale) {
  return requantized(largest(sum[0][0][i], sum[0][1][i], sum[1][0][i], sum[1][1][i]), scale);
}

}  // namespace lenet5_int8
