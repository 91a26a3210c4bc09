// batched_matmul: y = alpha a b for many small matrices, by multiply-adds. For any sizes and layouts; tensor_core.cu has 16-bit types.
//
// a [batch, m, k] or, transposed, [batch, k, m]; b [batch, k, n] or [batch, n, k]; y [batch, m, n]; m, n and k are at most 64.
//
// Mapping: a block copies kGroup matrices of a and b to shared memory, 16 bytes a copy, and each thread computes a
// tile of up to 4 rows (8 where m > 32) and 4 columns from there. Many blocks on a multiprocessor keep the copies coming.
//
// Bytes: a, b and y once.
// What was tried and measured: docs/kernels/batched_matmul.md.
#include "tile.cuh"

constexpr int kThreads = 128;
ASSERT_LAUNCH(batched_matmul, kThreads, 0);
constexpr int kBlockBytes = 16 * 1024;  // of a, b and y; the declaration's grid is for as many, and any other is right

using StagedTile = Tile<kM <= 32 ? 4 : 8>;
static_assert(StagedTile::kTiles <= kThreads, "a block computes a whole product at once");
constexpr int kGroup = larger(smaller(kBlockBytes / kBytes, kThreads / StagedTile::kTiles), 1);
constexpr bool kWideStores = StagedTile::Columns::kVector == 4;  // else y goes through shared memory

extern "C" __global__ void __launch_bounds__(kThreads)
    batched_matmul(const T* __restrict__ a, const T* __restrict__ b, int batch, T* __restrict__ y) {
  using A = StagedA<kAlongA>;
  using B = StagedB<kAlongB>;
  using Y = StagedY<false>;
  constexpr int kSizeA = A::size(kGroup), kSizeB = B::size(kGroup);
  __shared__ alignas(16) T memory[larger(kSizeA + kSizeB, kWideStores ? 0 : Y::size(kGroup))];
  T *staged_a = memory, *staged_b = memory + kSizeA;
  const int mine = threadIdx.x / StagedTile::kTiles;  // the product of this thread
  const long long stride = static_cast<long long>(gridDim.x) * kGroup;
  for (long long first = static_cast<long long>(blockIdx.x) * kGroup; first < batch; first += stride) {
    const int count = static_cast<int>(batch - first < kGroup ? batch - first : kGroup);
    A::fetch<kThreads>(staged_a, a, first, count, batch);
    B::fetch<kThreads>(staged_b, b, first, count, batch);
    wait_for_copies();
    __syncthreads();
    StagedTile tile(threadIdx.x % StagedTile::kTiles);
    if (mine < count) {
      tile.multiply<A::kRowStride, B::kRowStride>(staged_a + A::lead(first) + mine * A::kStride,
                                                  staged_b + B::lead(first) + mine * B::kStride);
    }
    if constexpr (kWideStores) {
      if (mine < count) tile.write<true>(y + (first + mine) * (kM * kN));
    } else {
      __syncthreads();  // y takes the place of a and b
      if (mine < count) tile.write<false>(memory + Y::lead(first) + mine * Y::kStride);
      __syncthreads();
      Y::put<kThreads>(memory, y, first, count);
    }
    __syncthreads();
  }
}
