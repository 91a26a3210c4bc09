// What the 5x5 convolutions share: their geometry, and the plain multiply-add of one quad.
//
// A quad is the four outputs that one thread computes for one filter, so that each input and weight it loads is used four
// times: either four neighbours in a row (a convolution alone) or one 2x2 window (a convolution that is max-pooled).
#pragma once

#include "common.cuh"

enum class Quad { kRow, kWindow };

constexpr int kFilterSize = 5;
constexpr int kTaps = kFilterSize * kFilterSize;
constexpr int kQuadOutputs = 4;

// x [n, kChannels, kHeight, kWidth] -> y [n, kFilters, kOutHeight, kOutWidth]; no padding, stride 1 (2 after pooling; floor).
template <int kChannels_, int kHeight_, int kWidth_, int kFilters_, Quad kQuad_>
struct Conv5x5Shape {
  static constexpr int kChannels = kChannels_, kHeight = kHeight_, kWidth = kWidth_, kFilters = kFilters_;
  static constexpr bool kPooled = kQuad_ == Quad::kWindow;
  static constexpr int kConvHeight = kHeight - kFilterSize + 1, kConvWidth = kWidth - kFilterSize + 1;
  static constexpr int kOutHeight = kPooled ? kConvHeight / 2 : kConvHeight;
  static constexpr int kOutWidth = kPooled ? kConvWidth / 2 : kConvWidth;
  static_assert(kOutHeight > 0 && kOutWidth > 0, "the image is smaller than the filter (and the pooling window)");

  // Quads of one image and filter, row by row.
  static constexpr int kQuadsAcross = kPooled ? kOutWidth : ceil_div(kOutWidth, kQuadOutputs);
  static constexpr int kQuads = kOutHeight * kQuadsAcross;
  // Where a quad's patch starts in the image, and its size.
  static constexpr int kRowStep = kPooled ? 2 : 1, kColumnStep = kPooled ? 2 : kQuadOutputs;
  static constexpr int kPatchHeight = kPooled ? 6 : 5, kPatchWidth = kPooled ? 6 : 8;
  // The last quad of a row hangs over the edge when a row is no multiple of four: loads are clamped, stores masked.
  static constexpr bool kOverhang = !kPooled && kOutWidth % kQuadOutputs != 0;

  static constexpr int kImageSize = kChannels * kHeight * kWidth;
  static constexpr int kPlaneSize = kOutHeight * kOutWidth;

  // Offset of output i (0..3) of a quad from its first: (row, column) in the convolution's output.
  static __host__ __device__ constexpr int output_row(int i) { return kPooled ? i / 2 : 0; }
  static __host__ __device__ constexpr int output_column(int i) { return kPooled ? i % 2 : i; }
};

// One row of a quad's patch, in float; `line` is its first element.
template <typename Shape, typename T>
__device__ __forceinline__ void load_line(float (&values)[Shape::kPatchWidth], const T* line, int first_column) {
  constexpr int kStep = Shape::kColumnStep;  // columns start at multiples of it, so vectors of it are aligned if rows are
  if constexpr (Shape::kWidth % kStep == 0) {
#pragma unroll
    for (int column = 0; column < Shape::kPatchWidth; column += kStep) {
      const auto vector = *reinterpret_cast<const Vector<T, kStep>*>(line + column);
#pragma unroll
      for (int i = 0; i < kStep; ++i) values[column + i] = to_float(vector.value[i]);
    }
  } else {
#pragma unroll
    for (int column = 0; column < Shape::kPatchWidth; ++column) {
      const bool inside = !Shape::kOverhang || first_column + column < Shape::kWidth;
      values[column] = to_float(line[inside ? column : 0]);
    }
  }
}

// sums[f][i] += patch * filter f, for one channel; `corner` is the patch's first element, weight(tap, f) a tap of the channel.
// A loop over the filters' rows: unrolled, the compiler would fetch many weights ahead and spill.
template <typename Shape, int kCount, typename T, typename Weight>
__device__ __forceinline__ void accumulate_quad(float (&sums)[kCount][kQuadOutputs], const T* corner, int first_column,
                                                Weight weight) {
  constexpr int kLines = Shape::kPatchHeight - kFilterSize + 1;  // rows of the patch that one row of the filter meets
  float lines[kLines + 1][Shape::kPatchWidth];
#pragma unroll
  for (int line = 0; line < kLines; ++line) load_line<Shape>(lines[line], corner + line * Shape::kWidth, first_column);
  int rows = kFilterSize;
  asm("" : "+r"(rows));  // hides the number from the compiler (NVVM 13.0), which unrolls one of the two quads regardless
#pragma unroll 1
  for (int row = 0; row < rows; ++row) {
    if (row + 1 < rows) load_line<Shape>(lines[kLines], corner + (row + kLines) * Shape::kWidth, first_column);
#pragma unroll
    for (int column = 0; column < kFilterSize; ++column) {
#pragma unroll
      for (int f = 0; f < kCount; ++f) {
        const float w = weight(row * kFilterSize + column, f);
#pragma unroll
        for (int i = 0; i < kQuadOutputs; ++i) {
          sums[f][i] = fmaf(lines[Shape::output_row(i)][column + Shape::output_column(i)], w, sums[f][i]);
        }
      }
    }
#pragma unroll
    for (int line = 0; line < kLines; ++line) {
#pragma unroll
      for (int i = 0; i < Shape::kPatchWidth; ++i) lines[line][i] = lines[line + 1][i];
    }
  }
}

enum class Activation { kNone = 0, kRelu = 1, kTanh = 2 };

template <Activation kActivation>
__device__ __forceinline__ float activate(float value) {
  if constexpr (kActivation == Activation::kRelu) return relu_nan(value);
  if constexpr (kActivation == Activation::kTanh) return tanhf(value);
  return value;
}

// Writes four neighbours in a row, or fewer where the row ends first; `column` is that of the first.
template <typename Shape, typename T>
__device__ __forceinline__ void store_row(T* out, int column, const float (&values)[kQuadOutputs]) {
  if constexpr (!Shape::kOverhang) {
    Vector<T, kQuadOutputs> vector;
#pragma unroll
    for (int i = 0; i < kQuadOutputs; ++i) vector.value[i] = from_float<T>(values[i]);
    store_vector_streaming(out, vector);
  } else {
#pragma unroll
    for (int i = 0; i < kQuadOutputs; ++i) {
      if (column + i < Shape::kOutWidth) out[i] = from_float<T>(values[i]);
    }
  }
}

// Adds the bias, applies the activation and, where pooled, takes the maximum; writes one quad of one image and filter.
// Pooling before bias and activation gives the same number: both are monotone, and so is rounding.
template <typename Shape, Activation kActivation, typename T>
__device__ __forceinline__ void store_quad(T* plane, int quad_row, int quad_column, const float (&sums)[kQuadOutputs],
                                           float bias) {
  if constexpr (Shape::kPooled) {
    const float top = max_nan(max_nan(sums[0], sums[1]), max_nan(sums[2], sums[3]));
    plane[quad_row * Shape::kOutWidth + quad_column] = from_float<T>(activate<kActivation>(top + bias));
  } else {
    float values[kQuadOutputs];
#pragma unroll
    for (int i = 0; i < kQuadOutputs; ++i) values[i] = activate<kActivation>(sums[i] + bias);
    const int column = quad_column * kQuadOutputs;
    store_row<Shape>(plane + quad_row * Shape::kOutWidth + column, column, values);
  }
}
