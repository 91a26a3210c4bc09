// Square windows that slide over planes: sizes, vectors of a row, and the results of one thread.
//
// An operation (a depthwise convolution, a pool) says what a window computes:
//   kOutsideIsZero                whether a zero can stand for an element outside the plane; otherwise first() does
//   first()                       the result before the first element
//   next(result, x, i, j)         the result after element x at row i and column j of the window
//   last(result, row, column)     what is stored as output (row, column)
#pragma once

#include "common.cuh"

__host__ __device__ constexpr int greatest_divisor(int a, int b) { return b == 0 ? a : greatest_divisor(b, a % b); }

template <typename T_, int kHeight_, int kWidth_, int kSize_, int kStride_, int kPad_>
struct Windows {
  using T = T_;
  static constexpr int kHeight = kHeight_, kWidth = kWidth_, kSize = kSize_, kStride = kStride_, kPad = kPad_;
  static constexpr int kOutHeight = (kHeight + 2 * kPad - kSize) / kStride + 1;
  static constexpr int kOutWidth = (kWidth + 2 * kPad - kSize) / kStride + 1;
  static constexpr int kPlane = kHeight * kWidth, kOutPlane = kOutHeight * kOutWidth;
  // Outputs of a thread in a row. They divide the row, so that each thread stores one vector a row.
  static constexpr int kRun = greatest_divisor(kOutWidth, 4);
  static constexpr int kStrips = kOutWidth / kRun;
  // Elements of the vectors of which rows of x and the windows of a run consist.
  static constexpr int kVector = greatest_divisor(kWidth, greatest_divisor(kRun * kStride, 4));
};

// A thread reads vectors of kVector elements that are aligned to their size in a row; kSkip elements of the first one are
// left of its windows.
template <typename Layer, int kVector_>
struct Reads {
  static constexpr int kVector = kVector_;
  static_assert(Layer::kRun * Layer::kStride % kVector == 0, "threads begin at vectors");
  static constexpr int kSkip = (kVector - Layer::kPad % kVector) % kVector;
  static constexpr int kNeeded = (Layer::kRun - 1) * Layer::kStride + Layer::kSize;
  static constexpr int kVectors = (kSkip + kNeeded + kVector - 1) / kVector;
  static constexpr int kColumns = kVectors * kVector;
};

// The results of kRows rows of kRun outputs: rows of x are added from the top down, each to the outputs that it reaches.
template <typename Layer, typename Operation, int kRows>
struct Results {
  static constexpr int kRowsOfX = (kRows - 1) * Layer::kStride + Layer::kSize;
  float of[kRows][Layer::kRun];

  __device__ __forceinline__ explicit Results(const Operation& operation) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
      for (int column = 0; column < Layer::kRun; ++column) of[row][column] = operation.first();
    }
  }

  // `x` is row `row_of_x` of the windows, from the first column of the first one on.
  __device__ __forceinline__ void add(int row_of_x, const float* x, const Operation& operation) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int i = row_of_x - row * Layer::kStride;
      if (i < 0 || i >= Layer::kSize) continue;
#pragma unroll
      for (int j = 0; j < Layer::kSize; ++j) {
#pragma unroll
        for (int column = 0; column < Layer::kRun; ++column) {
          of[row][column] = operation.next(of[row][column], x[column * Layer::kStride + j], i, j);
        }
      }
    }
  }

  // Stores the rows from `first_row` on of a plane of y, at `first_column`.
  __device__ __forceinline__ void store(typename Layer::T* __restrict__ plane, int first_row, int first_column,
                                        const Operation& operation) const {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (first_row + row >= Layer::kOutHeight) return;
      Vector<typename Layer::T, Layer::kRun> run;
#pragma unroll
      for (int i = 0; i < Layer::kRun; ++i) {
        run.value[i] = from_float<typename Layer::T>(operation.last(of[row][i], first_row + row, first_column + i));
      }
      store_vector(plane + (first_row + row) * Layer::kOutWidth + first_column, run);
    }
  }
};
