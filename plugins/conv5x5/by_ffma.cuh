// 5x5 convolution by plain multiply-adds, for any number of channels, filters and any image size, on any GPU.
//
// Thread mapping: one thread computes one quad (conv5x5/quad.cuh) for kGroup filters, so kGroup * 4 sums stay in registers.
// Neighbouring threads have neighbouring quads, across rows and images, so loads and stores coalesce, and no thread is idle for any
// image size. The patch comes from global memory through L1. The group's weights are in shared memory, tap by tap with the filters
// innermost: one broadcast 16-byte load serves 16 multiply-adds.
#pragma once

#include "conv5x5/quad.cuh"

constexpr int kFfmaThreads = 128;

template <typename Shape>
struct FfmaPlan {
  static constexpr int kMaxGroup = 10;          // 40 sums
  static constexpr int kGroups = ceil_div(Shape::kFilters, kMaxGroup);
  static constexpr int kGroup = ceil_div(Shape::kFilters, kGroups);
  static constexpr int kGroupPadded = ceil_div(kGroup, 4) * 4;
  static constexpr int kChunk = Shape::kChannels < 8 ? Shape::kChannels : 8;  // channels whose weights are held at a time
};

// Loads the weights of channels first_channel ... and filters first_filter ... for the block.
template <typename Shape, typename T>
__device__ __forceinline__ void load_weights(float (&weights)[FfmaPlan<Shape>::kChunk][kTaps][FfmaPlan<Shape>::kGroupPadded],
                                             const T* w, int first_channel, int first_filter) {
  using Plan = FfmaPlan<Shape>;
  for (int i = threadIdx.x; i < Plan::kChunk * kTaps * Plan::kGroup; i += kFfmaThreads) {
    const int f = i / (Plan::kChunk * kTaps), rest = i % (Plan::kChunk * kTaps);
    const int channel = first_channel + rest / kTaps, filter = first_filter + f;
    const bool exists = filter < Shape::kFilters && channel < Shape::kChannels;
    weights[rest / kTaps][rest % kTaps][f] =
        exists ? to_float(w[(filter * Shape::kChannels + channel) * kTaps + rest % kTaps]) : 0.0f;
  }
}

// Block b computes filter group b % kGroups of the quads b / kGroups * kFfmaThreads ..., then of the quads one grid further: groups
// of the same quads run side by side and share their input in L2, and weights that fit are loaded once.
template <typename Shape, Activation kActivation, typename T>
__device__ __forceinline__ void conv5x5_by_ffma(const T* __restrict__ x, const T* __restrict__ w,
                                                const T* __restrict__ bias, int n, T* __restrict__ y) {
  using Plan = FfmaPlan<Shape>;
  __shared__ alignas(16) float weights[Plan::kChunk][kTaps][Plan::kGroupPadded];
  constexpr bool kWeightsFit = Plan::kChunk == Shape::kChannels;

  const int first_filter = blockIdx.x % Plan::kGroups * Plan::kGroup;
  const int items = n * Shape::kQuads, stride = gridDim.x / Plan::kGroups * kFfmaThreads;
  if constexpr (kWeightsFit) {
    load_weights<Shape>(weights, w, 0, first_filter);
    __syncthreads();
  }
#pragma unroll 1
  for (int first = blockIdx.x / Plan::kGroups * kFfmaThreads; first < items; first += stride) {
    const bool active = first + threadIdx.x < items;
    const int item = active ? first + threadIdx.x : first;
    const int image = item / Shape::kQuads, quad = item % Shape::kQuads;
    const int quad_row = quad / Shape::kQuadsAcross, quad_column = quad % Shape::kQuadsAcross;
    const int first_column = quad_column * Shape::kColumnStep;
    const T* corner = x + static_cast<size_t>(image) * Shape::kImageSize +
                      quad_row * Shape::kRowStep * Shape::kWidth + first_column;

    float sums[Plan::kGroup][kQuadOutputs] = {};
    for (int first_channel = 0; first_channel < Shape::kChannels; first_channel += Plan::kChunk) {
      if constexpr (!kWeightsFit) {
        __syncthreads();
        load_weights<Shape>(weights, w, first_channel, first_filter);
        __syncthreads();
      }
      const int channels = min(Plan::kChunk, Shape::kChannels - first_channel);
#pragma unroll 1
      for (int c = 0; c < channels; ++c) {
        const T* channel = corner + (first_channel + c) * Shape::kHeight * Shape::kWidth;
        accumulate_quad<Shape>(sums, channel, first_column, [&](int tap, int f) { return weights[c][tap][f]; });
      }
    }

    if (!active) continue;
#pragma unroll
    for (int f = 0; f < Plan::kGroup; ++f) {
      const int filter = first_filter + f;
      if (filter >= Shape::kFilters) break;
      T* plane = y + (static_cast<size_t>(image) * Shape::kFilters + filter) * Shape::kPlaneSize;
      store_quad<Shape, kActivation>(plane, quad_row, quad_column, sums[f], to_float(bias[filter]));
    }
  }
}
