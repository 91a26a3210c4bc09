// What the variants of group_norm share: sizes, sums over a block, and what is stored of a group.
#pragma once

#include "rows.cuh"
#include "windows/activation.cuh"

namespace group_norm {

using T = TYPE_T;
constexpr int kGroups = ATTR_GROUP, kChannels = AXIS_C / kGroups, kPixels = AXIS_S, kLength = kChannels * kPixels;  // of a group
constexpr float kEpsilon = ATTR_EPSILON;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);

__device__ __forceinline__ float square(float value) { return value * value; }

// 1 / standard deviation, from the sum of the squared distances from the mean.
__device__ __forceinline__ float inverse_deviation(float squares) { return rsqrtf(squares * (1.0f / kLength) + kEpsilon); }

// Adds up what all threads have; each gets the sum. `sums` is used by one call alone.
template <int kWarps>
__device__ __forceinline__ float block_sum(float (&sums)[kWarps], float sum) {
  sum = lanes_sum<32>(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  return lanes_sum<kWarps>(sums[threadIdx.x % kWarps]);
}

// A group of channels, normalised: the mean and 1 / standard deviation are its own.
struct Normal {
  const T* __restrict__ scale;  // of the group's first channel
  const T* __restrict__ bias;
  float mean, inverse;

  __device__ __forceinline__ Normal(const T* scale_, const T* bias_, int group, float mean_, float inverse_)
      : scale(scale_ + group * kChannels), bias(bias_ + group * kChannels), mean(mean_), inverse(inverse_) {}

  __device__ __forceinline__ float of(float value, float factor, float offset) const {
    return activate<kActivation>(fmaf(value - mean, factor, offset));
  }

  template <typename Packs>
  __device__ __forceinline__ void store(const Packs& packs, T* __restrict__ y) const {
    if constexpr (kPixels % Packs::kWide == 0) {  // a pack is of one channel
#pragma unroll
      for (int i = 0; i < Packs::kEach; ++i) {
        if (!packs.whole(i)) continue;
        const int channel = packs.first_of(i) / kPixels;
        const float factor = inverse * to_float(scale[channel]), offset = to_float(bias[channel]);
        Pack16<T> out;
#pragma unroll
        for (int j = 0; j < Packs::kWide; ++j) out.value[j] = from_float<T>(of(packs.value(i, j), factor, offset));
        store_vector(y + packs.start + packs.first_of(i), out);
      }
    } else {
      packs.store(y, [&](int i, int j) {
        const int channel = packs.column(i, j) / kPixels;
        return of(packs.value(i, j), inverse * to_float(scale[channel]), to_float(bias[channel]));
      });
    }
  }
};

template <typename Packs>
__device__ __forceinline__ float sum_of(const Packs& packs) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < Packs::kEach; ++i) {
#pragma unroll
    for (int j = 0; j < Packs::kWide; ++j) sum += packs.value(i, j);  // what is outside of the group is 0
  }
  return sum;
}

template <typename Packs>
__device__ __forceinline__ float squares_of(const Packs& packs, float mean) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < Packs::kEach; ++i) {
#pragma unroll
    for (int j = 0; j < Packs::kWide; ++j) sum += packs.holds(i, j) ? square(packs.value(i, j) - mean) : 0.0f;
  }
  return sum;
}

}  // namespace group_norm
