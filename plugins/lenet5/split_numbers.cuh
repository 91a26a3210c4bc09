// Float32 as two fp16 numbers, and the powers of two that bring it into fp16's range.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/mma.cuh"

namespace lenet5 {

constexpr float kWeightScale = 256.0f;
constexpr int kTopExponent = 14;                     // scaled values stay below 2^14, well inside fp16
constexpr int kSmallestPixel = -80;                  // 2^-80 and 2^50: between them no scale and no bound leaves float
constexpr unsigned kSmallestBits = static_cast<unsigned>(127 + kSmallestPixel) << 23;
constexpr unsigned kLargestBits = (127u + 50u) << 23;
constexpr float kLargestBound = 1.15292150e18f;      // 2^60
constexpr int kSmallestExponent = -100;
constexpr unsigned kSmallStep = 14u << 23;           // see one_scale
constexpr unsigned kFewSmall = 64;

__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// e such that value < 2^e; value >= 0 and finite.
__device__ __forceinline__ int exponent_above(float value) {
  return max((__float_as_int(value) >> 23) - 126, kSmallestExponent);
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
