// The layer that patch_embedding and patch_embedding_half are compiled for: a row of x is a patch [C, P, P] of an image [C, H, W].
//
// A patch has I = C P P numbers.
#pragma once

#include "windows/activation.cuh"

using T = TYPE_T;
constexpr int kSide = ATTR_SIZE, kHeight = AXIS_H, kWidth = AXIS_W;
constexpr int kInputs = AXIS_C * kSide * kSide, kOutputs = AXIS_K;
constexpr Activation kActivation = Activation::kNone;
constexpr int kRun = 4;  // numbers of a patch that lie together in an image, at least
static_assert(kHeight % kSide == 0 && kWidth % kSide == 0 && kSide % kRun == 0);

#include "linear/packed.cuh"
