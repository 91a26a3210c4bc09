// Floats as two fp16 numbers each, for tensor cores: x = hi + lo / kLow, where hi is the nearest fp16 number. Three products of them stand for
// one of floats: hi hi + (hi lo + lo hi) / kLow. What is left out, lo lo, is 2^-22 of it.
//
// fp16 has few exponents. Weights are divided by a power of two when they are packed (packing.py); of x the largest number must be at least
// kLeastX, and none beyond fp16. Kernels compute what is outside by plain multiply-adds.
#pragma once

#include "split_floats/cut_sums.cuh"

constexpr float kLow = 2048.0f;             // 2^11, the bits of hi
constexpr float kLeastX = 1.0f / 16384.0f;  // 2^-14: lo is exact to 2^-36

// Two floats as words of two fp16 numbers.
__device__ __forceinline__ void split(float a, float b, unsigned& hi, unsigned& lo) {
  const __half2 near = __floats2half2_rn(a, b);
  const float2 of = __half22float2(near);
  const __half2 rest = __floats2half2_rn((a - of.x) * kLow, (b - of.y) * kLow);
  hi = reinterpret_cast<const unsigned&>(near);
  lo = reinterpret_cast<const unsigned&>(rest);
}

// The power of two that is at most a number's size, given as bits; of zero and of the smallest numbers, the smallest power that has an inverse.
__device__ __forceinline__ float power_of_two(unsigned size) {
  const unsigned exponent = size & 0x7f800000u;
  return __uint_as_float(exponent > 0x00800000u ? exponent : 0x00800000u);
}

// A sum of hi hi, of which the tensor cores added kProducts products at a time, and the sum of the two others.
template <int kProducts>
__device__ __forceinline__ float joined_sum(float high, float low) {
  return fmaf(fmaf(high, kCut<kProducts> * kLow, low), 1.0f / kLow, high);
}

// A packed weight, which its scale then multiplies.
__device__ __forceinline__ float joined(__half hi, __half lo) { return fmaf(to_float(lo), 1.0f / kLow, to_float(hi)); }

// Whether a sum is exact, by the largest x in it, as bits. An x beyond fp16 is an infinity, and so is the sum, or NaN.
__device__ __forceinline__ bool exact_sum(float sum, int largest) {
  return fabsf(sum) < __int_as_float(0x7f800000) && (largest == 0 || __int_as_float(largest) >= kLeastX);
}

// Calls compute_again(i) for each of up to 64 sums that is not exact; largest(i) is the largest x in it.
template <int kCount, typename Largest, typename Again>
__device__ __forceinline__ void each_inexact(const float (&sums)[kCount], const Largest& largest, const Again& compute_again) {
  static_assert(kCount <= 64);
  unsigned long long again = 0;  // a bit for each
#pragma unroll
  for (int i = 0; i < kCount; ++i) again |= static_cast<unsigned long long>(!exact_sum(sums[i], largest(i))) << i;
#pragma unroll 1
  for (; again != 0; again &= again - 1) compute_again(__ffsll(static_cast<long long>(again)) - 1);
}
