// The rows of merge_layer_norm: each is four pixels of x, K / 4 channels each.
#pragma once

#include "layer_norm/layer_norm.cuh"

namespace layer_norm {

// x [n, 2 * height, 2 * width, K / 4]. Row (i, j) of an image has the pixels (2i, 2j), (2i + 1, 2j), (2i, 2j + 1), (2i + 1, 2j + 1).
struct MergedRows {
  static_assert(kLength % 4 == 0, "four pixels");
  static constexpr int kPiece = kLength / 4;
  const T* __restrict__ x;
  unsigned width;  // of y

  struct Row {
    const T* __restrict__ first;
    size_t below;  // elements from a pixel to the one below it
    __device__ __forceinline__ const T* operator+(int column) const {
      const unsigned number = static_cast<unsigned>(column), pixel = number / kPiece;
      // Pixels that lie side by side in x are two pixels apart in the row.
      return first + (pixel % 2 == 0 ? size_t{0} : below) + (number - (pixel + 1) / 2 * kPiece);
    }
  };

  __device__ __forceinline__ Row row(size_t number) const {
    // Rows of pixels of all images follow each other, two for each row of y.
    const unsigned j = static_cast<unsigned>(number) % width;
    return {x + (4 * number - 2 * j) * kPiece, static_cast<size_t>(2 * width) * kPiece};
  }
};

}  // namespace layer_norm
