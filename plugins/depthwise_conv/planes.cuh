// Rows of a plane of x in shared memory with a border of zeros, copied by cp.async from sm_80 on.
//
// A row begins after a pack (16 bytes) that ends with the left border, so that packs of x stay packs.
#pragma once

#include "copies.cuh"
#include "layer.cuh"

constexpr int kPack = 16 / static_cast<int>(sizeof(T));

// One copy of kBytes from global to shared memory, or zeros. Before sm_80, and for 2 bytes, the thread waits for it.
template <int kBytes>
__device__ __forceinline__ void copy_to_shared(T* to, const T* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kBytes >= 4) {
    copy_async<kBytes>(shared_address(to), from, valid ? kBytes : 0);
    return;
  }
#endif
  constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  *reinterpret_cast<Vector<T, kCount>*>(to) = valid ? load_vector<kCount>(from) : Vector<T, kCount>{};
}

// Writes the zeros left and right of kRows rows, by a warp.
template <int kRows, int kPitch>
__device__ __forceinline__ void zero_borders(T* rows, int lane) {
  constexpr int kBorder = kPitch - Layer::kWidth;
  for (int i = lane; i < kRows * kBorder; i += 32) {
    const int row = i / kBorder, column = i % kBorder;
    rows[row * kPitch + column + (column < kPack ? 0 : Layer::kWidth)] = from_float<T>(0.0f);
  }
}

// Starts copying kRows rows of a plane, from row `top` on, by a warp; what lies outside becomes zeros.
template <int kRows, int kPitch>
__device__ __forceinline__ void copy_rows(T* to, const T* __restrict__ plane, int top, int lane) {
  constexpr int kVector = greatest_divisor(Layer::kWidth, kPack), kVectors = Layer::kWidth / kVector;
#pragma unroll 4
  for (int i = lane; i < kRows * kVectors; i += 32) {
    const int column = i % kVectors * kVector, row = i / kVectors, row_of_x = top + row;
    const bool valid = static_cast<unsigned>(row_of_x) < Layer::kHeight;
    const T* from = valid ? plane + row_of_x * Layer::kWidth + column : plane;
    copy_to_shared<kVector * static_cast<int>(sizeof(T))>(to + row * kPitch + kPack + column, from, valid);
  }
}
