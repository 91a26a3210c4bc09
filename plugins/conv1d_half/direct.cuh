// A convolution along one axis by plain multiply-adds: a thread computes 8 neighbouring outputs of a row.
#pragma once

#include "conv1d_half/layer.cuh"
#include "linear_half/plain.cuh"

constexpr int kDirectThreads = 128;

__device__ __forceinline__ void conv1d_direct(const Outputs& layer) {
  constexpr int kEights = kOutputs / kEight;
  const int unit = blockIdx.x * kDirectThreads + threadIdx.x, row = unit / kEights, first = unit % kEights * kEight;
  if (row >= layer.n) return;
  const int sequence = row / kRowsOfSequence, in_sequence = row % kRowsOfSequence;
  const T* const of_x = layer.x + static_cast<size_t>(sequence) * (kLength * kChannels);
  float sums[kEight] = {};
  plain_sums(sums, layer.weights, first, [&](int input) {
    const int position = position_of(in_sequence, input / kOfTap), channel = input % kOfTap;
    const bool exists = static_cast<unsigned>(position) < kLength && channel < kChannels;
    return exists ? load_vector<kEight>(of_x + (position * kChannels + channel)) : Vector<T, kEight>{};
  });
  layer.finish(sums, 0, row, first);
}
