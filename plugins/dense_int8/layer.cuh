// What the variants of dense_int8 share: the layer's sizes, and what becomes of a sum.
#pragma once

#include "common.cuh"
#include "quantized/requantize.cuh"

namespace dense_int8 {

using namespace int8;

constexpr int kIn = AXIS_IN, kOut = AXIS_OUT;

}  // namespace dense_int8
