// Sliding windows without shared memory: a thread reads its windows from global memory, and L1 serves the threads beside and
// below it. x [planes, H, W], y [planes, OH, OW].
//
// Mapping: a thread computes kRows rows of kRun neighbouring outputs; strips of a row are neighbouring threads, then rows,
// then planes. Nothing outside the plane is read.
#pragma once

#include "windows/windows.cuh"

template <typename Layer, int kRows, int kThreads>
struct DirectItem {
  static constexpr unsigned kTiles = ceil_div(Layer::kOutHeight, kRows);
  unsigned plane;
  int first_row, first_column;

  __device__ __forceinline__ DirectItem() {
    const unsigned item = blockIdx.x * static_cast<unsigned>(kThreads) + threadIdx.x;
    plane = item / (kTiles * Layer::kStrips);
    first_row = item / Layer::kStrips % kTiles * kRows;
    first_column = item % Layer::kStrips * Layer::kRun;
  }
};

// `x` and `y` are the item's planes.
template <typename Layer, int kRows, int kThreads, typename Operation>
__device__ __forceinline__ void compute_direct(const DirectItem<Layer, kRows, kThreads>& item,
                                               const typename Layer::T* __restrict__ x, const Operation& operation,
                                               typename Layer::T* __restrict__ y) {
  // Aligned vectors lie in a row as a whole or not at all.
  using In = Reads<Layer, Layer::kVector>;
  const int top = item.first_row * Layer::kStride - Layer::kPad;
  const int left = item.first_column * Layer::kStride - Layer::kPad - In::kSkip;

  Results<Layer, Operation, kRows> results(operation);
#pragma unroll
  for (int i = 0; i < results.kRowsOfX; ++i) {
    const bool in_plane = static_cast<unsigned>(top + i) < Layer::kHeight;
    float columns[In::kColumns];
#pragma unroll
    for (int v = 0; v < In::kVectors; ++v) {
      const int column = left + v * In::kVector;
      const bool inside = in_plane && static_cast<unsigned>(column) < Layer::kWidth;
      Vector<typename Layer::T, In::kVector> vector{};
      if (inside) vector = load_vector<In::kVector>(x + (top + i) * Layer::kWidth + column);
#pragma unroll
      for (int e = 0; e < In::kVector; ++e) {
        columns[v * In::kVector + e] =
            Operation::kOutsideIsZero || inside ? to_float(vector.value[e]) : operation.first();
      }
    }
    results.add(i, columns + In::kSkip, operation);
  }
  results.store(y, item.first_row, item.first_column, operation);
}

// A pool of all planes: kRows rows of outputs a thread.
template <typename Layer, int kRows, int kThreads, typename Operation>
__device__ __forceinline__ void pool_planes(const typename Layer::T* __restrict__ x, int planes, const Operation& operation,
                                            typename Layer::T* __restrict__ y) {
  const DirectItem<Layer, kRows, kThreads> item;
  if (item.plane >= static_cast<unsigned>(planes)) return;
  const size_t plane = item.plane;
  compute_direct(item, x + plane * Layer::kPlane, operation, y + plane * Layer::kOutPlane);
}
