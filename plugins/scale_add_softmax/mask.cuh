// What the variants of scale_add_softmax share: which row of the mask belongs to a row of x.
//
// x [outer, repeat, inner, K], mask [outer, 1, inner, K].
#pragma once

#include "softmax/softmax.cuh"

namespace softmax {

constexpr float kScale = ATTR_SCALE;

__device__ __forceinline__ size_t mask_row(unsigned row, unsigned repeat, unsigned inner) {
  return static_cast<size_t>(row / (repeat * inner)) * inner + row % inner;
}

__device__ __forceinline__ float masked(float x, T mask) { return fmaf(x, kScale, to_float(mask)); }

}  // namespace softmax
