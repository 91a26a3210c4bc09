// The layer that a convolution of many channels is compiled for, and one output of it by plain multiply-adds.
//
// x [n, C, H, W], filters [R, R, C, K] (a tap's row of all filters is contiguous; each divided by its scale, a power of two), scales [K],
// bias [K], y [n, K, OH, OW].
#pragma once

#include "windows/activation.cuh"
#include "windows/windows.cuh"

using T = TYPE_T;
using Layer = Windows<T, AXIS_H, AXIS_W, ATTR_SIZE, ATTR_STRIDE, ATTR_PAD>;
constexpr int kChannels = AXIS_C, kFilters = AXIS_K, kTaps = Layer::kSize * Layer::kSize;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
static_assert(sizeof(T) == 4 && kChannels % 8 == 0 && kFilters % 8 == 0);

// A pixel of y, of all images: where its window begins in x, and where it is in the first plane of its image of y.
struct Pixel {
  int image, row, column, at;

  __device__ __forceinline__ explicit Pixel(int pixel)
      : image(pixel / Layer::kOutPlane),
        row(pixel % Layer::kOutPlane / Layer::kOutWidth * Layer::kStride - Layer::kPad),
        column(pixel % Layer::kOutWidth * Layer::kStride - Layer::kPad),
        at(pixel % Layer::kOutPlane) {
    static_assert(Layer::kOutPlane % Layer::kOutWidth == 0);
  }

  // Its place in y for one filter.
  __device__ __forceinline__ size_t place(int filter) const {
    return (static_cast<size_t>(image) * kFilters + filter) * Layer::kOutPlane + at;
  }
};

// kCount outputs of neighbouring filters, without bias, from global memory.
template <int kCount>
__device__ __forceinline__ void plain_sums(float (&sums)[kCount], const T* __restrict__ x, const T* __restrict__ filters,
                                           const T* __restrict__ scales, const Pixel& pixel, int first_filter) {
  float scale[kCount];
#pragma unroll
  for (int f = 0; f < kCount; ++f) scale[f] = scales[first_filter + f];
  const T* image = x + static_cast<size_t>(pixel.image) * kChannels * Layer::kPlane;
#pragma unroll 1
  for (int tap = 0; tap < kTaps; ++tap) {
    const int row = pixel.row + tap / Layer::kSize, column = pixel.column + tap % Layer::kSize;
    if (static_cast<unsigned>(row) >= Layer::kHeight || static_cast<unsigned>(column) >= Layer::kWidth) continue;
    const T* value = image + row * Layer::kWidth + column;
    const T* weights = filters + tap * kChannels * kFilters + first_filter;
#pragma unroll 2
    for (int channel = 0; channel < kChannels; ++channel) {
      const float of_x = value[channel * Layer::kPlane];
      if constexpr (kCount % 4 == 0) {
#pragma unroll
        for (int f = 0; f < kCount; f += 4) {
          const Vector<T, 4> four = load_vector<4>(weights + channel * kFilters + f);
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[f + i] = fmaf(of_x, four.value[i] * scale[f + i], sums[f + i]);
        }
      } else {
#pragma unroll
        for (int f = 0; f < kCount; ++f) sums[f] = fmaf(of_x, weights[channel * kFilters + f] * scale[f], sums[f]);
      }
    }
  }
}
