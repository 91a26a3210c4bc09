// The layer that a convolution of many channels is compiled for, and one output of it by plain multiply-adds.
//
// x [n, C, H, W], scales [K], bias [K], y [n, K, OH, OW]; filters [K / 64, C / 8, R, R, 2, 64, 8] in fp16, filled up with zeros: w, divided
// by its filter's scale, a power of two, is hi + lo / kLow, where hi is the first of the two. Without an axis H, x [n, C, W] is one row of an
// image, y [n, K, OW] and the filters [K / 64, C / 8, R, 2, 64, 8] too, and neighbouring taps are a dilation apart.
// With TRANSPOSED, the transposed convolution of 2x2 filters at stride 2: four filters of one tap for each of its filters; what they make of
// a pixel of x is a square of y [n, K, 2 H, 2 W].
#pragma once

#include "split_floats/split.cuh"
#include "windows/activation.cuh"
#include "windows/windows.cuh"

using T = TYPE_T;
#if defined(TRANSPOSED)
struct Layer : Windows<T, AXIS_H, AXIS_W, 1, 1, 0> {
  static constexpr int kTapRows = 1, kDilation = 1, kPadRows = 0, kSide = 2;
};
#elif defined(AXIS_H)
struct Layer : Windows<T, AXIS_H, AXIS_W, ATTR_SIZE, ATTR_STRIDE, ATTR_PAD> {
  static constexpr int kTapRows = kSize, kDilation = 1, kPadRows = kPad, kSide = 1;
};
#else
struct Layer {
  static constexpr int kSide = 1;
  static constexpr int kHeight = 1, kWidth = AXIS_W, kSize = ATTR_SIZE, kStride = ATTR_STRIDE, kPad = ATTR_PAD;
  static constexpr int kTapRows = 1, kDilation = ATTR_DILATION, kPadRows = 0;
  static constexpr int kOutHeight = 1, kOutWidth = (kWidth + 2 * kPad - kDilation * (kSize - 1) - 1) / kStride + 1;
  static constexpr int kPlane = kWidth, kOutPlane = kOutWidth;
};
#endif
constexpr int kSquare = Layer::kSide * Layer::kSide;  // filters that make a square of y of a pixel
constexpr int kChannels = AXIS_C, kFilters = AXIS_K * kSquare, kTaps = Layer::kTapRows * Layer::kSize;
constexpr int kFilterBlock = 64, kEight = 8, kChannelEights = ceil_div(kChannels, kEight);
constexpr bool kAllEights = kChannels % kEight == 0 && kFilters % kEight == 0;  // else points.cuh and direct.cuh alone compute it
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
static_assert(sizeof(T) == 4 && kFilters % 2 == 0);

// What a launch is given; `added` is added before the activation.
struct Tensors {
  const T* __restrict__ x;
  const T* __restrict__ added;
  const __half* __restrict__ filters;
  const T* __restrict__ scales;
  const T* __restrict__ bias;
  const int n;
  T* __restrict__ y;
};

// Where the first filter's hi of 8 channels at a tap is, among the filters; lo follows kFilterBlock * kEight numbers later.
__device__ __forceinline__ int filter_at(int block, int eight, int tap) {
  return ((block * kChannelEights + eight) * kTaps + tap) * (2 * kFilterBlock * kEight);
}

// A pixel of y, of all images: where its window begins in x, and where it is in the first plane of its image of y.
struct Pixel {
  int image, row, column, at;

  __device__ __forceinline__ explicit Pixel(int pixel)
      : image(pixel / Layer::kOutPlane),
        row(pixel % Layer::kOutPlane / Layer::kOutWidth * Layer::kStride - Layer::kPadRows),
        column(pixel % Layer::kOutWidth * Layer::kStride - Layer::kPad),
        at(pixel % Layer::kOutPlane) {
    static_assert(Layer::kOutPlane % Layer::kOutWidth == 0);
  }

  // Its place in y for one filter.
  __device__ __forceinline__ size_t place(int filter) const {
    if constexpr (kSquare > 1) {
      const size_t plane = static_cast<size_t>(image) * (kFilters / kSquare) + filter / kSquare;
      const int of_row = at / Layer::kOutWidth * Layer::kSide + filter % kSquare / Layer::kSide;
      const int of_column = at % Layer::kOutWidth * Layer::kSide + filter % Layer::kSide;
      return plane * (Layer::kOutPlane * kSquare) + of_row * (Layer::kOutWidth * Layer::kSide) + of_column;
    }
    return (static_cast<size_t>(image) * kFilters + filter) * Layer::kOutPlane + at;
  }
};

// kCount outputs of neighbouring filters of a block, without bias, from global memory. Beyond the last filter there is any number.
template <int kCount>
__device__ __forceinline__ void plain_sums(float (&sums)[kCount], const T* __restrict__ x, const __half* __restrict__ filters,
                                           const T* __restrict__ scales, const Pixel& pixel, int first_filter) {
  float scale[kCount];
#pragma unroll
  for (int f = 0; f < kCount; ++f) scale[f] = scales[kAllEights ? first_filter + f : smaller(first_filter + f, kFilters - 1)];
  const T* image = x + static_cast<size_t>(pixel.image) * kChannels * Layer::kPlane;
#pragma unroll 1
  for (int tap = 0; tap < kTaps; ++tap) {
    const int row = pixel.row + tap / Layer::kSize, column = pixel.column + tap % Layer::kSize * Layer::kDilation;
    if (static_cast<unsigned>(row) >= Layer::kHeight || static_cast<unsigned>(column) >= Layer::kWidth) continue;
    const T* value = image + row * Layer::kWidth + column;
#pragma unroll 1
    for (int eight = 0; eight < kChannelEights; ++eight) {
      const __half* weights = filters + filter_at(first_filter / kFilterBlock, eight, tap) + first_filter % kFilterBlock * kEight;
      float of_x[kEight];
#pragma unroll
      for (int i = 0; i < kEight; ++i) {
        const int channel = eight * kEight + i;
        of_x[i] = kAllEights || channel < kChannels ? value[channel * Layer::kPlane] : 0.0f;
      }
#pragma unroll
      for (int f = 0; f < kCount; ++f) {
        const Vector<__half, kEight> hi = load_vector<kEight>(weights + f * kEight);
        const Vector<__half, kEight> lo = load_vector<kEight>(weights + (kFilterBlock + f) * kEight);
#pragma unroll
        for (int i = 0; i < kEight; ++i) {
          const float weight = joined(hi.value[i], lo.value[i]) * scale[f];
          sums[f] = fmaf(of_x[i], weight, sums[f]);
        }
      }
    }
  }
}

// A sum by plain multiply-adds.
__device__ __noinline__ float plain_sum(const T* __restrict__ x, const __half* __restrict__ filters, const T* __restrict__ scales, int pixel,
                                        int filter) {
  float sums[1] = {};
  plain_sums(sums, x, filters, scales, Pixel(pixel), filter);
  return sums[0];
}
