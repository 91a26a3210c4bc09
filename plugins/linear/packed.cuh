// Packed weights of a dense layer, [I / 32, kParts, O / 8, 4, 8, 8]. The kernel's own sizes (T, kInputs, kOutputs, kActivation) are included before.
//
// Of a chunk of 32 inputs hi of all outputs comes first, then lo, where they are split; 8 outputs and 8 inputs lie together, as wgmma reads them.
// The last chunk is filled up with zeros.
#pragma once

#include "common.cuh"

constexpr int kEight = 8;
constexpr int kChunk = 32;             // inputs whose weights lie together
constexpr int kAllChunks = ceil_div(kInputs, kChunk);
constexpr int kParts = sizeof(T) / 2;  // 16-bit numbers of a weight
static_assert(kInputs % kEight == 0 && kOutputs % kEight == 0);

// Numbers of a chunk, hi or lo: of 8 outputs, and of all.
constexpr int kOfEight = kChunk * kEight, kOfAll = kOutputs / kEight * kOfEight;
