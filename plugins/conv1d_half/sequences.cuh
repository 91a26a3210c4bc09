// How positions of x come to a stage as the rows of a dense layer (linear/by_wgmma.cuh). A tile has rows of one sequence.
#pragma once

#include "conv1d_half/layer.cuh"

#include "linear_half/wgmma_entries.cuh"

struct Sequences : Outputs {
  static constexpr int kSequence = kRowsOfSequence;  // for the plan
#if LAUNCH_MAPS
  const TensorMap* map;  // of x [n, W / stride, stride, C]

  // Begins to copy a box: the channels of a stage of each position that a tap has in the tile. Outside of the sequence are zeros.
  template <typename Plan>
  __device__ __forceinline__ void begin_box(unsigned to, int first_row, int step, unsigned barrier) const {
    const int input = step * Plan::kDepth, shift = input / kOfTap - kPad;  // of the position; at stride 2 in pairs, and within them
    const int pair = first_row % kRowsOfSequence + (shift >> (kStride - 1));
    begin_tensor_copy(to, map, first_row / kRowsOfSequence, pair, shift & (kStride - 1), input % kOfTap, barrier);
  }
#else
  // Begins to copy the same, 16 bytes a thread, neighbouring ones of a position by neighbouring threads.
  template <typename Plan>
  __device__ __forceinline__ void begin_copy(unsigned stages, unsigned stage, int first_row, int step, int thread) const {
    constexpr int kPieces = Plan::kDepth / kEight, kRowsAtOnce = kRole / kPieces;
    const int piece = thread % kPieces, some = thread / kPieces, input = step * Plan::kDepth + piece * kEight;
    const int tap = input / kOfTap, channel = input % kOfTap, first = first_row % kRowsOfSequence + some;
    const T* const of_sequence = this->x + static_cast<size_t>(first_row / kRowsOfSequence) * (kLength * kChannels);
    const unsigned to = stages + stage + (some * Plan::kPitch + piece * kEight) * 2;
#pragma unroll
    for (int i = 0; i < kTileRows; i += kRowsAtOnce) {
      const int position = position_of(first + i, tap);
      const bool exists = static_cast<unsigned>(position) < kLength && channel < kChannels;
      copy_async<16>(to + i * Plan::kPitch * 2, exists ? of_sequence + (position * kChannels + channel) : this->x, exists ? 16 : 0);
    }
  }
#endif
};
