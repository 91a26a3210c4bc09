// Planes of x in shared memory with a border of zeros, copied by cp.async from sm_80 on.
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

// Writes the zeros left and right of kRows rows. kThreads threads call it, each with its number.
template <int kRows, int kPitch, int kThreads>
__device__ __forceinline__ void zero_borders(T* rows, int thread) {
  constexpr int kBorder = kPitch - Layer::kWidth;
  for (int i = thread; i < kRows * kBorder; i += kThreads) {
    const int row = i / kBorder, column = i % kBorder;
    rows[row * kPitch + column + (column < kPack ? 0 : Layer::kWidth)] = from_float<T>(0.0f);
  }
}

// Starts copying kRows rows, from row `top` on, of each of kPlanes planes; what lies outside becomes zeros.
template <int kPlanes, int kRows, int kPitch, int kThreads>
__device__ __forceinline__ void copy_planes(T* to, const T* __restrict__ x, unsigned first_plane, unsigned planes, int top,
                                            int thread) {
  constexpr int kVector = greatest_divisor(Layer::kWidth, kPack), kVectors = Layer::kWidth / kVector;
#pragma unroll 4
  for (int i = thread; i < kPlanes * kRows * kVectors; i += kThreads) {
    const int column = i % kVectors * kVector, row = i / kVectors;
    const int row_of_x = top + row % kRows;
    const unsigned plane = first_plane + row / kRows;
    const bool valid = static_cast<unsigned>(row_of_x) < Layer::kHeight && plane < planes;
    const T* from = valid ? x + (static_cast<size_t>(plane) * Layer::kHeight + row_of_x) * Layer::kWidth + column : x;
    copy_to_shared<kVector * static_cast<int>(sizeof(T))>(to + row * kPitch + kPack + column, from, valid);
  }
}
