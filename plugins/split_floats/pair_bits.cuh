// Two numbers of 16 bits as a word.
#pragma once

#include "common.cuh"

// `a` is the lower half.
template <typename T>
__device__ __forceinline__ unsigned pair_bits(T a, T b) {
  const Vector<T, 2> pair{a, b};
  return *reinterpret_cast<const unsigned*>(&pair);
}
