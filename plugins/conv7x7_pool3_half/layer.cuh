// The layer that conv7x7_pool3_half is compiled for, and how its filters are packed.
//
// x [n, C, H, W], bias [K], y [n, PH, PW, K]; W and K multiples of 8. The convolution has 7x7 filters, stride 2 and padding 3, the pooling 3x3
// windows, stride 2 and padding 1: pooled row p has the largest of rows 2 p - 1 to 2 p + 1 of the convolution.
// filters [K / 64, C, 8, 64, 8], filled up with zeros: of 64 filters, the 8 taps of a row of a channel. Tap 0 is zero, since 8 columns of x that
// begin at an even one hold the 7 of an output; row 7 is zero. Of 64 filters, filter 32 i + 8 t + 2 j + e stands at 32 i + 8 j + 2 t + e:
// then a lane of strip.cuh has eight neighbours.
#pragma once

#include "windows/activation.cuh"

using T = TYPE_T;
using X = TYPE_TX;  // T, or float: then it is rounded to T, as by a Cast
constexpr int kHeight = AXIS_H, kWidth = AXIS_W, kChannels = AXIS_C, kFilters = AXIS_K;
constexpr int kSize = 7, kPad = 3, kEight = 8, kFilterBlock = 64;
constexpr int kOutHeight = ceil_div(kHeight, 2), kOutWidth = ceil_div(kWidth, 2);
constexpr int kPooledHeight = ceil_div(kOutHeight, 2), kPooledWidth = ceil_div(kOutWidth, 2);
// Numbers of 64 filters: a row of a channel, all.
constexpr int kOfRow = kFilterBlock * kEight, kOfBlock = kChannels * kEight * kOfRow;
// A larger sum gives no smaller output, so the largest of a window's sums is activated alone.
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
static_assert(kActivation <= Activation::kRelu6);
static_assert(sizeof(T) == 2 && kWidth % kEight == 0 && kFilters % kEight == 0);

// What a launch is given.
struct Tensors {
  const X* __restrict__ x;
  const T* __restrict__ filters;
  const T* __restrict__ bias;
  const int n;
  T* __restrict__ y;
};
