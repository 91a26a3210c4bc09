// Two floats as a word of two numbers of 16 bits.
#pragma once

#include "common.cuh"

template <typename T>
__device__ __forceinline__ unsigned rounded(float a, float b);
template <>
__device__ __forceinline__ unsigned rounded<__half>(float a, float b) {
  const __half2 pair = __floats2half2_rn(a, b);
  return reinterpret_cast<const unsigned&>(pair);
}
template <>
__device__ __forceinline__ unsigned rounded<__nv_bfloat16>(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const unsigned&>(pair);
}
