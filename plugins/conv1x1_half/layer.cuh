// The 1x1 convolution that conv1x1_half and its variants with sums and tokens are compiled for, in fp16 or bfloat16: a dense layer, whose rows are pixels.
//
// x [n, H, W, C], weights (w, packed: linear/packed.cuh), bias [K], y and other [n, H, W, K].
#pragma once

#include "windows/activation.cuh"

using T = TYPE_T;
constexpr int kInputs = AXIS_C, kOutputs = AXIS_K;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);

#include "linear_half/rows_in_order.cuh"
