// The convolutions of lenet5_split, a warp an image: numbers as high and low parts in fp16 (split_numbers.cuh).
#pragma once

#include "lenet5/split_memory.cuh"

namespace lenet5 {

__device__ __forceinline__ void store_fragment(unsigned target, int part_bytes, int index, int lane, float2 pair,
                                               int exponent) {
  const float scale = power_of_two(kTopWeight - exponent);
  const Split weights = split(pair.x * scale, pair.y * scale);
  unsigned* word = at<unsigned>(target + ((index / 4 * kLanes + lane) * 4 + index % 4) * 4);
  word[0] = weights.high;
  word[part_bytes / 4] = weights.low;
}

// The exponents of conv1's and conv2's rows, a warp a row, and for conv1 the sum of |weights|, a little more than it is.
__device__ __forceinline__ void find_rows(unsigned rows1, unsigned rows2, unsigned sums, unsigned raw1, unsigned raw2,
                                          int warp, int lane) {
  for (int row = warp; row < kConv2Channels; row += kWarps) {
    float most = 0.0f;
#pragma unroll
    for (int k = 0; k < kConv2Taps; k += kLanes) {
      if (k + lane < kConv2Taps) most = max_nan(most, fabsf(at<float>(raw2 + (row * kConv2Taps + lane) * 4)[k]));
    }
    most = warp_max(most);
    if (lane == 0) *at<signed char>(rows2 + row) = row_exponent(most);
  }
  if (warp >= kConv1Channels) return;
  const float weight = lane < kFilterTaps ? fabsf(*at<float>(raw1 + (warp * kFilterTaps + lane) * 4)) : 0.0f;
  const float most = warp_max(weight), sum = warp_sum(weight);
  if (lane == 0) {
    *at<signed char>(rows1 + warp) = row_exponent(most);
    *at<float>(sums + warp * 4) = sum * 1.001f;  // so that rounding cannot put a map above its bound
  }
}

struct Pixels {
  float4 quads[kFetchSteps];
  float most;  // the largest |pixel|, NaN above infinity; the same in every lane
};

__device__ __forceinline__ void load_pixels(Pixels& pixels, unsigned image, int lane) {
  const float4* source = at<float4>(image + min(lane, kFetchLanes - 1) * kQuad * 4);
  float most = 0.0f;
#pragma unroll
  for (int step = 0; step < kFetchSteps; ++step) {
    const float4 quad = source[step * kFetchLanes];
    pixels.quads[step] = quad;
    most = max_nan(max_nan(max_nan(most, fabsf(quad.x)), max_nan(fabsf(quad.y), fabsf(quad.z))), fabsf(quad.w));
  }
  pixels.most = warp_max(most);
}

__device__ __forceinline__ void build_windows(unsigned windows, const Pixels& pixels, float scale, const WindowStore& store) {
  uint2 *even = at<uint2>(windows + store.even * 2), *odd = at<uint2>(windows + store.odd * 2);
#pragma unroll
  for (int step = 0; step < kFetchSteps; ++step) {
    const float4 quad = pixels.quads[step];
    const Split a = split(quad.x * scale, quad.y * scale), b = split(quad.z * scale, quad.w * scale);
    constexpr int kLow = kWindowBytes / 8;
    const int offset = step * kWindowStepUnits * kUnitBytes / 8;
    if (store.in_even) {
      even[offset] = make_uint2(a.high, b.high);
      even[offset + kLow] = make_uint2(a.low, b.low);
    }
    if (store.in_odd) {
      odd[offset] = make_uint2(a.high, b.high);
      odd[offset + kLow] = make_uint2(a.low, b.low);
    }
  }
}

__device__ __forceinline__ void conv1_sums(float (&acc)[2][kConv1Tiles][4], unsigned windows, const unsigned (&w)[kParts][16],
                                           const float4 (&bias)[kConv1Tiles], unsigned rows03, unsigned rows14, int group) {
  unsigned x[3][4];
  load_windows(x, windows + kWindowBytes, rows03, rows14, group);
  conv1_product<true>(acc, x, w[0], bias);
  load_windows(x, windows, rows03, rows14, group);
  conv1_product<false>(acc, x, w[1], bias);
  conv1_product<false>(acc, x, w[0], bias);
}

__device__ __forceinline__ void store_pooled(unsigned target, const float (&acc)[2][kConv1Tiles][4],
                                             const float (&scale)[kConv1Tiles]) {
#pragma unroll
  for (int parity = 0; parity < 2; ++parity) {
    float value[kConv1Tiles];
#pragma unroll
    for (int j = 0; j < kConv1Tiles; ++j) {
      const float most = relu_max4(acc[0][j][2 * parity], acc[0][j][2 * parity + 1], acc[1][j][2 * parity], acc[1][j][2 * parity + 1]);
      value[j] = most * scale[j];
    }
    const Split c01 = split(value[0], value[1]), c2 = split(value[2], 0.0f);
    uint2* unit = at<uint2>(target) + parity * 2;
    unit[0] = make_uint2(c01.high, c2.high);
    unit[kMapBytes / 8] = make_uint2(c01.low, c2.low);
  }
}

// map = ReLU(pooled sum) * scale, which is of a lane's three channels; `bias` is scaled like the sums.
__device__ __forceinline__ void conv1_pool(unsigned map, unsigned windows, unsigned weights, const float (&scale)[kConv1Tiles],
                                           const float4 (&bias)[kConv1Tiles], unsigned rows03, unsigned rows14, int lane) {
  unsigned w[kParts][4 * kConv1FragmentQuads];
  load_fragments<kConv1FragmentQuads>(w[0], weights, lane);
  load_fragments<kConv1FragmentQuads>(w[1], weights + kConv1Part, lane);
  const int row = lane / 4, pixel = lane & 1, channels = lane >> 1 & 1;
  const unsigned target = map + (pixel * kMapParity + 2 * row) * kUnitBytes + channels * kQuad * 2;
#pragma unroll
  for (int group = 0; group < kConv1Groups; ++group) {
    float acc[2][kConv1Tiles][4];
    conv1_sums(acc, windows, w, bias, rows03, rows14, group);
    if (group * 8 + row < kConv1Rows) store_pooled(target + group * 16 * kUnitBytes, acc, scale);
  }
}

struct FilterRow {
  unsigned pairs[8], single[2];

  __device__ __forceinline__ void load(unsigned weights, int ky, int lane) {
    load_fragments<2>(pairs, weights + ky * 2 * kLanes * 16, lane);
    const int index = kConv2Pairs + 2 * ky;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(single[0]), "=r"(single[1])
                 : "r"(weights + ((index / 4 * kLanes + lane) * 4 + index % 4) * 4)
                 : "memory");
  }
};

// value[half][group][2]: ReLU(pooled sum * scale + bias) of channel lane / 4 + 8 half, outputs 8 group + lane % 4 * 2 and the next.
__device__ __forceinline__ void conv2_pool(float (&value)[2][kConv2Groups][2], unsigned map, unsigned weights,
                                           const float (&scale)[2], const float (&bias)[2], unsigned columns0314, unsigned columns25,
                                           int lane) {
  float acc[kConv2Groups][2][2][4] = {};
  FilterRow w[2][kParts];  // of even and odd ky
#pragma unroll
  for (int row = 0; row < kMapRows; ++row) {
    if (row < kFilterSide) {
      w[row % 2][0].load(weights, row, lane);
      w[row % 2][1].load(weights + kConv2Part, row, lane);
    }
#pragma unroll
    for (int part = kParts - 1; part >= 0; --part) {
      unsigned c[kConv2Groups][4], c25[4];
      const unsigned shift = row * kMapRow * kUnitBytes + part * kMapBytes;
      load_matrices(c[0], map + columns0314 + shift);
      load_matrices(c[1], map + columns0314 + shift + kMapGroup * kUnitBytes);
      load_matrices(c25, map + columns25 + shift);
#pragma unroll
      for (int dy = 0; dy < kPool; ++dy) {
        const int ky = row - dy;
        if (ky < 0 || ky >= kFilterSide) continue;
        const FilterRow(&filters)[kParts] = w[ky % 2];
#pragma unroll
        for (int other = 0; other < kParts - part; ++other) {  // the product of the two low parts is too small to matter
#pragma unroll
          for (int group = 0; group < kConv2Groups; ++group) {
            conv2_product(acc[group][dy], c[group], c25[2 * group], c25[2 * group + 1], filters[other].pairs, filters[other].single);
          }
        }
      }
    }
  }
#pragma unroll
  for (int group = 0; group < kConv2Groups; ++group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float most = max4(acc[group][0][0][i], acc[group][0][1][i], acc[group][1][0][i], acc[group][1][1][i]);
      value[i / 2][group][i % 2] = relu_nan(fmaf(most, scale[i / 2], bias[i / 2]));
    }
  }
}

// Features to fp16 parts. Returns what a sum over features is to be multiplied with; NaN if all are below 2^(least - 1), unless
// the map is zero, so that they are right whatever they are.
__device__ __forceinline__ float store_features(unsigned features, const float (&value)[2][kConv2Groups][2], int least,
                                                bool zero_map, int lane) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) most = max_nan(most, value[i / 4][i / 2 % 2][i % 2]);
  most = warp_max(most);
  const int above = exponent_above(most), exponent = kTopExponent - above;
  const float scale = power_of_two(exponent);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Split a = split(value[half][0][0] * scale, value[half][0][1] * scale);
    const Split b = split(value[half][1][0] * scale, value[half][1][1] * scale);
    const int feature = (lane / 4 + 8 * half) * kPool2Pixels + lane % 4 * 2;
    uint2* target = at<uint2>(features + chunk_position(feature) * 2);
    target[0] = make_uint2(a.high, b.high);
    target[kFeaturePart / 8] = make_uint2(a.low, b.low);
  }
  if (zero_map && most == 0.0f) return 0.0f;
  return above > kSmallestExponent && (above >= least || zero_map) ? power_of_two(-exponent) : nan();
}

// A value that the compiler takes for a new one: what follows from it is computed where it is used, not kept over the loop.
__device__ __forceinline__ int anew(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

}  // namespace lenet5
