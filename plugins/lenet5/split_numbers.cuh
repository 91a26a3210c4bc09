// Float32 as two fp16 numbers: the powers of two that bring it into fp16's range, and when that is accurate.
//
// Numbers are scaled so that the largest lies just below 2^14 or 2^15. Then a number is exact to 2^-22 of itself or to 2^-25 (half of
// fp16's smallest), whichever is more; so small numbers are exact to about 2^-38 of the largest. A sum of products is as exact as in float,
// except for a few 2^-38 of its FULL SCALE, the largest activation times the largest weight of its row. This loses only results far below
// full scale: where ReLU drops all sums of the large numbers, or where the large numbers meet zeros. Hence this rule, which needs no
// look at single numbers: an image is accepted if its largest feature (after conv2, bias included) and one of its fc1 sums reach 2^-14 of
// full scale; common images reach 2^-4. In accepted images a layer's largest output has an additional error of about 2^-20. All other
// images are computed in plain float32, and so are images whose scales leave the range of float: scales stay inside it while weights and
// images keep the wide ranges below.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/images.cuh"

namespace lenet5 {

constexpr int kTopExponent = 14;                     // scaled activations stay below 2^14 (the map, whose bound is rough, below 2^13),
constexpr int kTopWeight = 15;                       // scaled weights below 2^15
constexpr int kSmallestPixel = -80;                  // the largest pixel of an image is in [2^-80, 2^50) or zero
constexpr unsigned kSmallestBits = static_cast<unsigned>(127 + kSmallestPixel) << 23;
constexpr unsigned kLargestBits = (127u + 50u) << 23;
constexpr int kSmallestWeight = -70;                 // the largest weight of a row in [2^-70, 2^60) or zero
constexpr int kLargestWeight = 60;
constexpr int kZeroRow = -20;                        // the exponent of a row of zeros: any would do
constexpr int kUnfit = -128;                         // and of a row that has none
constexpr float kLargestBound = 1.15292150e18f;      // 2^60
constexpr int kSmallestExponent = -100;
constexpr int kScaleLimit = 110;                     // no scale that is made of several leaves [2^-110, 2^110]
constexpr int kTrustedDepth = 14;                    // 2^-14 of full scale, see above
constexpr float kTrustedSum = 16384.0f;              // the same of features and weights scaled: 2^(14 + 15 - 1 - 14)
constexpr float kTiniest = 1.26217745e-29f;          // 2^-96: below, products of tf32 parts could leave float

__device__ __forceinline__ float nan() { return __int_as_float(0x7fffffff); }
__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// e such that value < 2^e; value >= 0 and finite.
__device__ __forceinline__ int exponent_above(float value) {
  return max((__float_as_int(value) >> 23) - 126, kSmallestExponent);
}

// The same of the largest |weight| of a row, in kSmallestWeight + 1 .. kLargestWeight; kZeroRow, kUnfit.
__device__ __forceinline__ int row_exponent(float most) {
  if (most == 0.0f) return kZeroRow;
  const int exponent = (__float_as_int(most) >> 23) - 126;  // 129 for infinity and NaN
  return exponent > kSmallestWeight && exponent <= kLargestWeight ? exponent : kUnfit;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

// Of values >= 0, NaN above all.
__device__ __forceinline__ float warp_max(float value) {
  return __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(value)));
}

// What the weights of both convolutions ask of an image's scales: 2^pixel for its pixels, 2^map for its map.
struct alignas(16) Limits {
  int most_pixel, least_step, most_map, least_feature;  // step: map - pixel; least_feature: of exponent_above(features) + map
};

// By a warp, from the exponents of conv1's and conv2's rows.
__device__ __forceinline__ Limits find_limits(const signed char* rows1, const signed char* rows2, int lane) {
  const int low1 = __reduce_min_sync(kAllLanes, static_cast<int>(rows1[lane % kConv1Channels]));
  const int low2 = __reduce_min_sync(kAllLanes, static_cast<int>(rows2[lane % kConv2Channels]));
  const int high2 = __reduce_max_sync(kAllLanes, static_cast<int>(rows2[lane % kConv2Channels]));
  constexpr int kSpare = kScaleLimit - kTopWeight;
  if (low1 == kUnfit || low2 == kUnfit) return {-1024, 1024, -1024, 1024};  // no image has such scales
  return {kSpare + low1, -kSpare - low1, min(kSpare + low2, kScaleLimit), high2 + kTopExponent - 1 - kTrustedDepth};
}

struct Split {
  unsigned high, low;
};
__device__ __forceinline__ Split split(float a, float b) {
  const __half2 high = __floats2half2_rn(a, b);
  const float2 rounded = __half22float2(high);
  return {bits(high), bits(__floats2half2_rn(a - rounded.x, b - rounded.y))};
}

}  // namespace lenet5
