// How a block of batched_matmul computes products by multiply-adds from shared memory.
#pragma once

#include "tile.cuh"

// Each thread computes one tile of one product of a group. The declaration's grid is for groups of as many products; any other is right.
template <typename OwnTile, int kThreads, int kBlockBytes>
__device__ __forceinline__ void multiply_staged(const T* a, const T* b, int batch, T* y) {
  static_assert(OwnTile::kTiles <= kThreads, "a block computes a whole product at once");
  constexpr bool kWideStores = OwnTile::Columns::kVector == 4;  // else y goes through shared memory
  using A = StagedA<kAlongA>;
  using B = StagedB<kAlongB>;
  using Y = StagedY<false>;
  constexpr int kFit = most_products(larger(A::kStride + B::kStride, kWideStores ? 0 : Y::kStride));
  constexpr int kGroup = larger(smaller(smaller(kBlockBytes / kBytes, kThreads / OwnTile::kTiles), kFit), 1);
  constexpr int kSizeA = A::size(kGroup), kSizeB = B::size(kGroup);
  __shared__ __align__(16) T memory[larger(kSizeA + kSizeB, kWideStores ? 0 : Y::size(kGroup))];
  T *staged_a = memory, *staged_b = memory + kSizeA;
  const int mine = threadIdx.x / OwnTile::kTiles;  // the product of this thread
  const long long stride = static_cast<long long>(gridDim.x) * kGroup;
  for (long long first = static_cast<long long>(blockIdx.x) * kGroup; first < batch; first += stride) {
    const int count = static_cast<int>(batch - first < kGroup ? batch - first : kGroup);
    A::template fetch<kThreads, kGroup>(staged_a, a, first, count, batch);
    B::template fetch<kThreads, kGroup>(staged_b, b, first, count, batch);
    copy_async_wait_all();
    __syncthreads();
    OwnTile tile(threadIdx.x % OwnTile::kTiles);
    if (mine < count) {
      tile.template multiply<A::kRowStride, B::kRowStride>(staged_a + A::lead(first) + mine * A::kStride,
                                                           staged_b + B::lead(first) + mine * B::kStride);
    }
    if constexpr (kWideStores) {
      if (mine < count) tile.template write<true>(y + (first + mine) * (kM * kN));
    } else {
      __syncthreads();  // y takes the place of a and b
      if (mine < count) tile.template write<false>(memory + Y::lead(first) + mine * Y::kStride);
      __syncthreads();
      Y::template put<kThreads, kGroup>(memory, y, first, count);
    }
    __syncthreads();
  }
}
