// The layer that depthwise_layer_norm is compiled for.
//
// x [n, H, W, C], filters (w, packed), bias, scale and shift [C] -> y [n, H, W, C]; padding 3.
//
// Packed filters are [C / 8, 7 rows, 2 fours of channels, 8, 4 channels, 2]: each tap of a row and the one behind it, then no tap and the first one.
// Where there is no tap, it is zero.
#pragma once

#include "bulk.cuh"
#include "launch_maps.cuh"

using T = TYPE_T;
constexpr int kHeight = AXIS_H, kWidth = AXIS_W, kChannels = ATTR_GROUP;
constexpr float kEpsilon = ATTR_EPSILON;
constexpr int kEight = 8, kSize = 7, kPad = 3, kTaps = kSize * kSize;
constexpr int kGroups = kChannels / kEight, kGroupTaps = kSize * 2 * 8 * 4 * 2;  // numbers of eight channels
static_assert(sizeof(T) == 2 && kChannels % kEight == 0);

constexpr bool kMapped = LAUNCH_MAPS > 0;

// What a launch is given.
struct Layer {
  const T* __restrict__ x;
  const T* __restrict__ filters;
  const T* __restrict__ bias;
  const T* __restrict__ scale;
  const T* __restrict__ shift;
  int n;
  T* __restrict__ y;
  const TensorMap* map = nullptr;  // of x: images, rows, columns and channels
};

// The place of tap `tap` of a channel, among the numbers of its eight.
__device__ __forceinline__ int tap_at(int tap, int channel) { return (((tap / kSize * 2 + channel / 4) * 8 + tap % kSize) * 4 + channel % 4) * 2; }

// 1 / standard deviation, from the sum of the squared distances from the mean.
__device__ __forceinline__ float inverse_deviation(float squares) { return rsqrtf(squares * (1.0f / kChannels) + kEpsilon); }
