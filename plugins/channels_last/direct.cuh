// The 3x3 convolution of channels-last maps by plain multiply-adds, on any GPU.
//
// Mapping: a thread computes 8 filters of a pixel; neighbouring threads have neighbouring filters, so the threads of a pixel read the same
// 16 bytes of x.
#pragma once

#include "channels_last/layer.cuh"

constexpr int kDirectThreads = 128;

// The row, among 64 packed ones, of a filter.
__device__ __forceinline__ int row_of(int filter) { return filter / 16 * 16 + filter / 2 % 2 * 8 + filter % 16 / 4 * 2 + filter % 2; }

template <bool kAdds, bool kSquares = false>
__device__ __forceinline__ void channels_last_direct(const Tensors& tensors) {
  constexpr int kGroups = kFilters / kEight;
  const int index = blockIdx.x * kDirectThreads + threadIdx.x, first = index % kGroups * kEight, pixel = index / kGroups;
  if (pixel >= tensors.n * (kHeight * kWidth)) return;
  const int in_plane = pixel % (kHeight * kWidth), image = pixel / (kHeight * kWidth);
  const int top = in_plane / kWidth - kPad, left = in_plane % kWidth - kPad;
  float sums[kEight];
#pragma unroll
  for (int f = 0; f < kEight; ++f) sums[f] = bias_of(tensors, first + f);
#pragma unroll 1
  for (int tap = 0; tap < kTaps; ++tap) {
    const int row = top + tap / kSize, column = left + tap % kSize;
    if (static_cast<unsigned>(row) >= kHeight || static_cast<unsigned>(column) >= kWidth) continue;
    const size_t from = (image * kHeight + row) * kWidth + column;
    const T* const from_x = tensors.x + from * kOfX;
    const T* const from_other = tensors.other + from * kJoined;
#pragma unroll 1
    for (int eight = 0; eight < kChannels / kEight; ++eight) {
      const int channel = eight * kEight;
      const Vector<T, kEight> of_x = load_vector<kEight>((is_joined(channel) ? from_other : from_x) + at_pixel(0, channel));
      const int exist = bytes_of_unit(channel) / 2;  // of the eight channels
      const T* const filters = tensors.filters + ((first / kFilterBlock * kSteps * kEights + eight) * kTaps + tap) * kOfTap;
#pragma unroll
      for (int f = 0; f < kEight; ++f) {
        const Vector<T, kEight> weights = load_vector<kEight>(filters + row_of(first % kFilterBlock + f) * kEight);
#pragma unroll
        for (int i = 0; i < kEight; ++i) sums[f] = i < exist ? fmaf(to_float(of_x.value[i]), to_float(weights.value[i]), sums[f]) : sums[f];
      }
    }
  }
  const size_t at = static_cast<size_t>(pixel) * kFilters + first;
  Vector<T, kEight> others{}, outputs;
  if constexpr (kAdds) others = load_vector<kEight>(tensors.other + at);
#pragma unroll
  for (int f = 0; f < kEight; ++f) {
    outputs.value[f] = activated<kActivation, T>(kAdds ? sums[f] + to_float(others.value[f]) : sums[f]);
  }
  if constexpr (kSquares) {
#pragma unroll
    for (int f = 0; f < kEight; f += 4) {
      const Vector<T, 4> four{outputs.value[f], outputs.value[f + 1], outputs.value[f + 2], outputs.value[f + 3]};
      if (first + f < AXIS_K) store_square(tensors.y, four, image, first + f, in_plane / kWidth, in_plane % kWidth);
    }
  } else {
    clear_padding(outputs, first);
    store_vector(tensors.y + at, outputs);
  }
}
