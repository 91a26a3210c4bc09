// A pixel by its row of all images, which lie one below the other.
#pragma once

#include "common.cuh"

// kImageRows: rows from an image to the next, kHeight or more.
template <int kImageRows, int kHeight, int kWidth>
struct Spot {
  int image, row, column;
  __device__ __forceinline__ Spot(int row_of_all, int column_)
      : image(row_of_all / kImageRows), row(row_of_all % kImageRows), column(column_) {}
  __device__ __forceinline__ bool exists(int n) const {
    return image < n && row < kHeight && static_cast<unsigned>(column) < kWidth;
  }
  __device__ __forceinline__ int in_plane() const { return row * kWidth + column; }
  __device__ __forceinline__ int of_all() const { return image * (kHeight * kWidth) + in_plane(); }
};
