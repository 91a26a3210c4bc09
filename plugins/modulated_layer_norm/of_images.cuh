// Which parts of their tensors factors and shifts are, for the kernels that are compiled with the axes and attributes of modulated_layer_norm.
#pragma once

#include "layer_norm/layer_norm.cuh"

namespace layer_norm {

// scale and bias [K], factor and shift [images, parts, K].
__device__ __forceinline__ ModulatedNorm modulated_norm(const T* scale, const T* bias, const T* factor, const T* shift, int tokens) {
  return {{scale, bias}, {factor, AXIS_FACTORS, ATTR_FACTOR_PART, tokens}, {shift, AXIS_SHIFTS, ATTR_SHIFT_PART, tokens}};
}

}  // namespace layer_norm
