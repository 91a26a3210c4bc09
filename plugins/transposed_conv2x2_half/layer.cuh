// The layer that transposed_conv2x2_half is compiled for: a product of pixels of x and weights, and where its outputs lie in y.
//
// x [n, H, W, C], weights (w, packed: linear/packed.cuh), bias [K], y [n, 2 H, 2 W, K].
// A pixel of x has 4 K outputs, the square of 2x2 pixels of y: first its upper two pixels, which are neighbours in y, then its lower two.
// Among 32 outputs, output 8 t + 2 j + e is column 8 j + 2 t + e of a product: so a lane of a product has 8 neighbours, 16 bytes.
#pragma once

#include "windows/activation.cuh"

using T = TYPE_T;
constexpr int kWidth = AXIS_W, kInputs = AXIS_C, kPlanes = AXIS_K, kOutputs = 4 * kPlanes;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
static_assert(sizeof(T) == 2);

#include "linear/packed.cuh"

constexpr int kOrdered = 32;  // outputs that have an order of their own as columns

struct Layer {
  const T* __restrict__ x;
  const T* __restrict__ weights;
  const T* __restrict__ bias;
  const int n;  // pixels of all images
  T* __restrict__ y;

  __device__ __forceinline__ const T* row(int pixel) const { return x + static_cast<size_t>(pixel) * kInputs; }

  // The biases of eight neighbouring outputs, which are of one pixel of y.
  __device__ __forceinline__ Vector<T, kEight> bias_of(int output) const { return load_vector<kEight>(bias + output % kPlanes); }

  // Where an output of a pixel is: row r of x begins at pixel 4 r W of y, and the lower two pixels are a row of y behind the upper two.
  __device__ __forceinline__ T* place(int pixel, int output) const {
    const size_t upper = static_cast<size_t>(4 * pixel - 2 * (pixel % kWidth)) * kPlanes;
    return y + (upper + output + (output < 2 * kPlanes ? 0 : (2 * kWidth - 2) * kPlanes));
  }

  // Sums of eight neighbours become outputs.
  __device__ __forceinline__ void store(const float (&sums)[kEight], int pixel, int output) const {
    Vector<T, kEight> outputs;
#pragma unroll
    for (int i = 0; i < kEight; ++i) outputs.value[i] = activated<kActivation, T>(sums[i]);
    store_vector(place(pixel, output), outputs);
  }
};
