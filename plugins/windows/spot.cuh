// A pixel by its row of all images, which lie one below the other with rows of zeros after each.
#pragma once

#include "common.cuh"

// kImageRows: rows from an image to the next.
template <int kImageRows, int kPlanes, int kHeight, int kWidth>
struct Spot {
  int image, row, column;
  __device__ __forceinline__ Spot(int row_of_all, int column_)
      : image(row_of_all / kImageRows), row(row_of_all % kImageRows), column(column_) {}
  __device__ __forceinline__ bool exists(int n) const {
    return image < n && row < kHeight && static_cast<unsigned>(column) < kWidth;
  }
  __device__ __forceinline__ int in_plane() const { return row * kWidth + column; }
  __device__ __forceinline__ int of_all() const { return image * (kHeight * kWidth) + in_plane(); }
  __device__ __forceinline__ int place(int plane) const { return (image * kPlanes + plane) * (kHeight * kWidth) + in_plane(); }
};
