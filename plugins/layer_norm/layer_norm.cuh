// What the variants of layer_norm share: the normalisation of one value, and what is compiled in.
#pragma once

#include "rows.cuh"

namespace layer_norm {

using T = TYPE_T;
constexpr int kLength = AXIS_K;
constexpr float kEpsilon = ATTR_EPSILON;

__device__ __forceinline__ float square(float value) { return value * value; }

// 1 / standard deviation, from the sum of the squared distances from the mean.
__device__ __forceinline__ float inverse_deviation(float squares) { return rsqrtf(squares * (1.0f / kLength) + kEpsilon); }

__device__ __forceinline__ float normalized(float value, float mean, float inverse, T scale, T bias) {
  return fmaf((value - mean) * inverse, to_float(scale), to_float(bias));
}

// Which norm: of the distances from the mean of a row, with a bias; or of the values themselves, without one, as if their mean were 0.
struct LayerNorm {
  static constexpr bool kCentred = true, kModulates = false;
  const T* __restrict__ scale;
  const T* __restrict__ bias;

  template <int kCount>
  __device__ __forceinline__ Vector<T, kCount> biases(int column) const {
    return load_vector<kCount>(bias + column);
  }
};

struct RmsNorm {
  static constexpr bool kCentred = false, kModulates = false;
  const T* __restrict__ scale;

  template <int kCount>
  __device__ __forceinline__ Vector<T, kCount> biases(int) const {
    return {};
  }
};

// What the columns of each image have: one part of a tensor [images, parts, K].
struct OfImages {
  const T* __restrict__ first;  // of the first image
  const size_t pitch;           // from image to image
  const unsigned tokens;        // rows of an image

  __device__ __forceinline__ OfImages(const T* tensor, int parts, int part, int tokens)
      : first(tensor + static_cast<size_t>(part) * kLength), pitch(static_cast<size_t>(parts) * kLength), tokens(tokens) {}

  template <int kCount>
  __device__ __forceinline__ Vector<T, kCount> of(size_t row, int column) const {
    return load_vector<kCount>(first + row / tokens * pitch + column);
  }
};

// A layer norm, of which each image has factors and shifts of the columns besides: * (1 + factor) + shift. Rows are whole packs.
struct ModulatedNorm : LayerNorm {
  static constexpr bool kModulates = true;
  const OfImages factors, shifts;
};

__device__ __forceinline__ float modulated(float value, T factor, T shift) { return fmaf(value, 1.0f + to_float(factor), to_float(shift)); }

// Where a row of x begins: `row_of(x, number) + column` is the address of an element, and kPiece<Source> elements of a row lie together. All
// do where x is a pointer to rows that lie one after another; other kernels have a type for x.
template <typename Source>
constexpr int kPiece = Source::kPiece;
template <>
constexpr int kPiece<const T*> = kLength;

__device__ __forceinline__ const T* row_of(const T* x, size_t number) { return x + number * kLength; }
template <typename Source>
__device__ __forceinline__ auto row_of(const Source& x, size_t number) {
  return x.row(number);
}

// What is added to x before: nothing, or rows of which the sum is written as well, in the type of the tensors.
struct NoResidual {
  static constexpr bool kAdds = false, kGates = false;
};

struct Residual {
  static constexpr bool kAdds = true, kGates = false;
  const T* __restrict__ other;
  T* __restrict__ sum;
};

// The sum of other and of x, times a gate that the columns of each image have. Rows are whole packs.
struct GatedResidual : Residual {
  static constexpr bool kGates = true;
  const OfImages gates;
};

__device__ __forceinline__ T added(T a, T b) { return from_float<T>(to_float(a) + to_float(b)); }
__device__ __forceinline__ T added(T a, T b, T gate) { return from_float<T>(fmaf(to_float(gate), to_float(a), to_float(b))); }

}  // namespace layer_norm
