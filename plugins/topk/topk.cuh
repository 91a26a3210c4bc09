// What the variants of topk share: the key by which elements are ordered.
//
// A key has the value in its upper half and the index in its lower one, both turned so that the larger key comes first: the
// larger value, and of equal values the lower index. No two keys are equal, and none is 0. NaN counts as larger than infinity.
#pragma once

#include "rows.cuh"

namespace topk {

using T = TYPE_T;
using Key = unsigned long long;
constexpr int kLength = AXIS_N;
constexpr int kTop = ATTR_K;
static_assert(kTop <= kLength, "a row has fewer elements than are asked for");

// The bits of a value such that unsigned numbers have the order of the values.
__device__ __forceinline__ unsigned ordered(T element) {
  const float value = to_float(element) + 0.0f;  // -0 becomes 0, to which it is equal
  const unsigned bits = value == value ? __float_as_uint(value) : 0x7fffffffu;
  return bits ^ (static_cast<unsigned>(static_cast<int>(bits) >> 31) | 0x80000000u);
}

__device__ __forceinline__ Key key_of(unsigned order, int index) {
  return static_cast<Key>(order) << 32 | ~static_cast<unsigned>(index);
}

__device__ __forceinline__ T value_of(Key key) {
  const unsigned order = static_cast<unsigned>(key >> 32);
  return from_float<T>(__uint_as_float(order & 0x80000000u ? order ^ 0x80000000u : ~order));
}

__device__ __forceinline__ int index_of(Key key) { return static_cast<int>(~static_cast<unsigned>(key)); }

__device__ __forceinline__ unsigned warp_sum(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(kAllLanes, value);
#else
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
#endif
}

}  // namespace topk
