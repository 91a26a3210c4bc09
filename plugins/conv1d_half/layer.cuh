// The convolution along one axis that conv1d_half and conv1d_half_tokens are compiled for: y = act(conv(x, w) + bias), in fp16 or bfloat16.
//
// x [n, W, C], weights (w, packed: linear/packed.cuh), bias [K], y [n, OW, K].
// It is a dense layer: the inputs of an output's row are those of its taps, one tap after the other. A tap's C inputs are filled up with zeros.
#pragma once

#include "windows/activation.cuh"

using T = TYPE_T;
constexpr int kChannels = AXIS_C, kLength = AXIS_W, kTaps = ATTR_SIZE, kStride = ATTR_STRIDE, kPad = ATTR_PAD;
constexpr int kRowsOfSequence = (kLength + 2 * kPad - kTaps) / kStride + 1;
// The inputs of a tap are whole chunks, and pairs of chunks where the number of taps is even: a stage has two chunks if the number of all is even,
// and inputs of one tap alone.
constexpr int kGrain = kTaps % 2 == 0 ? 64 : 32;
constexpr int kOfTap = ceil_div(kChannels, kGrain) * kGrain;
constexpr int kInputs = kTaps * kOfTap, kOutputs = AXIS_K;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
static_assert(kStride == 1 || kStride == 2);

#include "linear_half/outputs.cuh"

// The position of x that a row of y multiplies by a tap, which may lie outside of the sequence.
__device__ __forceinline__ int position_of(int row_of_sequence, int tap) { return row_of_sequence * kStride + tap - kPad; }
