// 5x5 convolution by plain multiply-adds, for any number of channels, filters and any image size, on any GPU.
//
// Thread mapping: one thread computes one quad (conv5x5_quad.cuh) for kGroup filters, so kGroup * 4 sums stay in registers;
// neighbouring threads take neighbouring quads, across rows and images, so loads and stores coalesce and no thread idles
// whatever the image size. The patch comes from global memory through L1. The group's weights are in shared memory, tap by
// tap with the filters innermost: one broadcast 16-byte load feeds 16 multiply-adds.
#pragma once

#include "conv5x5_quad.cuh"

constexpr int kFfmaThreads = 128;

template <typename Shape>
struct FfmaPlan {
  static constexpr int kMaxGroup = 10;          // 40 sums and a 36-float patch fit 128 registers
  static constexpr int kGroups = ceil_div(Shape::kFilters, kMaxGroup);
  static constexpr int kGroup = ceil_div(Shape::kFilters, kGroups);
  static constexpr int kGroupPadded = ceil_div(kGroup, 4) * 4;
  static constexpr int kChunk = Shape::kChannels < 8 ? Shape::kChannels : 8;  // channels whose weights are held at a time
};

// Block b handles filter group b % kGroups of quads b / kGroups * kFfmaThreads ...: groups of the same quads run side by
// side and share their input in L2.
template <typename Shape, Activation kActivation, typename T>
__device__ __forceinline__ void conv5x5_by_ffma(const T* __restrict__ x, const T* __restrict__ w,
                                                const T* __restrict__ bias, int n, T* __restrict__ y) {
  using Plan = FfmaPlan<Shape>;
  __shared__ alignas(16) float weights[Plan::kChunk][kTaps][Plan::kGroupPadded];

  const int first_filter = blockIdx.x % Plan::kGroups * Plan::kGroup;
  const int item = blockIdx.x / Plan::kGroups * kFfmaThreads + threadIdx.x;
  const bool active = item < n * Shape::kQuads;
  const int image = active ? item / Shape::kQuads : 0, quad = active ? item % Shape::kQuads : 0;
  const int quad_row = quad / Shape::kQuadsAcross, quad_column = quad % Shape::kQuadsAcross;
  const int first_column = quad_column * Shape::kColumnStep;
  const T* corner = x + static_cast<size_t>(image) * Shape::kImageSize +
                    quad_row * Shape::kRowStep * Shape::kWidth + first_column;

  float sums[Plan::kGroup][kQuadOutputs] = {};
  for (int first_channel = 0; first_channel < Shape::kChannels; first_channel += Plan::kChunk) {
    if (first_channel > 0) __syncthreads();
    for (int i = threadIdx.x; i < Plan::kChunk * kTaps * Plan::kGroup; i += kFfmaThreads) {
      const int f = i / (Plan::kChunk * kTaps), rest = i % (Plan::kChunk * kTaps);
      const int channel = first_channel + rest / kTaps, tap = rest % kTaps, filter = first_filter + f;
      const bool exists = filter < Shape::kFilters && channel < Shape::kChannels;
      weights[rest / kTaps][tap][f] = exists ? to_float(w[(filter * Shape::kChannels + channel) * kTaps + tap]) : 0.0f;
    }
    __syncthreads();
    const int channels = min(Plan::kChunk, Shape::kChannels - first_channel);
#pragma unroll 1
    for (int c = 0; c < channels; ++c) {
      float patch[Shape::kPatchHeight][Shape::kPatchWidth];
      load_patch<Shape>(patch, corner + (first_channel + c) * Shape::kHeight * Shape::kWidth, first_column);
      accumulate_quad<Shape>(sums, patch, [&](int tap, int f) { return weights[c][tap][f]; });
    }
  }

  if (!active) return;
#pragma unroll
  for (int f = 0; f < Plan::kGroup; ++f) {
    const int filter = first_filter + f;
    if (filter >= Shape::kFilters) break;
    T* plane = y + (static_cast<size_t>(image) * Shape::kFilters + filter) * Shape::kPlaneSize;
    store_quad<Shape, kActivation>(plane, quad_row, quad_column, sums[f], to_float(bias[filter]));
  }
}
