// What both variants of conv_int8 share: the layer's sizes, and what becomes of a sum.
#pragma once

#include "common.cuh"
#include "quantized/requantize.cuh"

namespace conv_int8 {

using namespace int8;

constexpr int kHeight = AXIS_H, kWidth = AXIS_W, kChannels = AXIS_C, kFilters = AXIS_K;
constexpr int kSize = ATTR_SIZE, kStride = ATTR_STRIDE, kPad = ATTR_PAD, kPool = ATTR_POOL;
constexpr int kOutHeight = ((kHeight + 2 * kPad - kSize) / kStride + 1) / kPool;
constexpr int kOutWidth = ((kWidth + 2 * kPad - kSize) / kStride + 1) / kPool;
constexpr int kOutPlane = kOutHeight * kOutWidth, kImageBytes = kChannels * kHeight * kWidth;
constexpr int kFilterBytes = kChannels * kSize * kSize;
constexpr int kLanes = 32, kThreads = 128, kWarps = kThreads / kLanes;

}  // namespace conv_int8
