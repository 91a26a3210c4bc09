// The depthwise convolution from shared memory. A unit is a few planes, or a band of rows of one; a block copies it with its
// border of zeros, then each thread computes kRows rows of kRun outputs without a test.
//
// With two stages a block stays, and copies its next unit while it computes one (cp.async from sm_80 on).
#pragma once

#include "layer.cuh"

// One copy of kBytes from global to shared memory, or zeros. Before sm_80, and for 2 bytes, the thread waits for it.
template <int kBytes>
__device__ __forceinline__ void copy_to_shared(T* to, const T* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kBytes >= 4) {
    const int bytes = valid ? kBytes : 0;
    if constexpr (kBytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(kBytes),
                   "r"(bytes));
    }
    return;
  }
#endif
  constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  *reinterpret_cast<Vector<T, kCount>*>(to) = valid ? load_vector<kCount>(from) : Vector<T, kCount>{};
}

__device__ __forceinline__ void close_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most kOpen of the newest groups of copies are under way.
template <int kOpen>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
#endif
}

template <int kRows_, int kThreads_, int kStages_>
struct Tiling {
  static constexpr int kRows = kRows_, kThreads = kThreads_, kStages = kStages_;
  static constexpr int kPack = 16 / static_cast<int>(sizeof(T));
  static constexpr int kTiles = (Layer::kOutHeight + kRows - 1) / kRows;  // of a plane, from top to bottom
  static constexpr int kFit = kThreads / Layer::kStrips;
  static_assert(kFit > 0, "a row of outputs has more strips than a block has threads");
  static constexpr int kBandTiles = kTiles < kFit ? kTiles : kFit;
  static constexpr int kBands = (kTiles + kBandTiles - 1) / kBandTiles;
  static constexpr int kPlanes = kThreads / (Layer::kStrips * kBandTiles);
  // In shared memory a row of x begins after a pack that ends with the left border.
  static constexpr int kRowsOfX = (kBandTiles * kRows - 1) * Layer::kStride + Layer::kSize;
  static constexpr int kPitch = round_up(kPack + Layer::kWidth + Layer::kPad, kPack);
  static constexpr int kStageElements = kPlanes * kRowsOfX * kPitch;
  static constexpr int kSharedBytes = kStages * kStageElements * static_cast<int>(sizeof(T));
};

template <typename Plan>
__device__ __forceinline__ void zero_borders(T* stages) {
  constexpr int kBorder = Plan::kPitch - Layer::kWidth, kRowsOfAll = Plan::kStages * Plan::kPlanes * Plan::kRowsOfX;
  for (int i = threadIdx.x; i < kRowsOfAll * kBorder; i += Plan::kThreads) {
    const int row = i / kBorder, column = i % kBorder;
    stages[row * Plan::kPitch + column + (column < Plan::kPack ? 0 : Layer::kWidth)] = from_float<T>(0.0f);
  }
}

template <typename Plan>
__device__ __forceinline__ void copy_unit(T* stage, const T* __restrict__ x, unsigned unit, unsigned planes) {
  constexpr int kVector = greatest_divisor(Layer::kWidth, Plan::kPack), kVectors = Layer::kWidth / kVector;
  constexpr int kCopies = Plan::kPlanes * Plan::kRowsOfX * kVectors;
  const unsigned first_plane = unit / Plan::kBands * Plan::kPlanes;
  const int top = unit % Plan::kBands * (Plan::kBandTiles * Plan::kRows * Layer::kStride) - Layer::kPad;
#pragma unroll 4
  for (int i = threadIdx.x; i < kCopies; i += Plan::kThreads) {
    const int column = i % kVectors * kVector, row = i / kVectors;
    const int row_of_x = top + row % Plan::kRowsOfX;
    const unsigned plane = first_plane + row / Plan::kRowsOfX;
    const bool valid = static_cast<unsigned>(row_of_x) < Layer::kHeight && plane < planes;
    const T* from = valid ? x + (static_cast<size_t>(plane) * Layer::kHeight + row_of_x) * Layer::kWidth + column : x;
    copy_to_shared<kVector * sizeof(T)>(stage + row * Plan::kPitch + Plan::kPack + column, from, valid);
  }
}

template <typename Plan>
__device__ __forceinline__ void compute_unit(const T* stage, const T* __restrict__ w, const T* __restrict__ bias,
                                             unsigned unit, unsigned planes, T* __restrict__ y) {
  using In = Reads<Layer, greatest_divisor(Layer::kRun * Layer::kStride, 4)>;
  using Tile = Results<Layer, Convolution, Plan::kRows>;
  constexpr int kLeft = Plan::kPack - Layer::kPad - In::kSkip;  // the first column that the first strip reads
  static_assert(kLeft >= 0, "the border is too narrow on the left");
  static_assert(kLeft + (Layer::kStrips - 1) * Layer::kRun * Layer::kStride + In::kColumns <= Plan::kPitch,
                "the border is too narrow on the right");
  const int strip = threadIdx.x % Layer::kStrips, tile_of_band = threadIdx.x / Layer::kStrips % Plan::kBandTiles;
  const int plane_of_unit = threadIdx.x / (Layer::kStrips * Plan::kBandTiles);
  const size_t plane = unit / Plan::kBands * Plan::kPlanes + plane_of_unit;
  const int tile = unit % Plan::kBands * Plan::kBandTiles + tile_of_band;
  if (plane_of_unit >= Plan::kPlanes || plane >= planes || tile >= Plan::kTiles) return;
  const Convolution convolution(w, bias, plane % kChannels);
  Tile sums(convolution);
  const T* from = stage + (plane_of_unit * Plan::kRowsOfX + tile_of_band * Plan::kRows * Layer::kStride) * Plan::kPitch +
                  kLeft + strip * Layer::kRun * Layer::kStride;
#pragma unroll
  for (int i = 0; i < Tile::kRowsOfX; ++i) {
    float columns[In::kColumns];
#pragma unroll
    for (int v = 0; v < In::kVectors; ++v) {
      const auto vector = load_vector<In::kVector>(from + i * Plan::kPitch + v * In::kVector);
#pragma unroll
      for (int e = 0; e < In::kVector; ++e) columns[v * In::kVector + e] = to_float(vector.value[e]);
    }
    sums.add(i, columns + In::kSkip, convolution);
  }
  sums.store(y + plane * Layer::kOutPlane, tile * Plan::kRows, strip * Layer::kRun, convolution);
}

template <typename Plan>
__device__ __forceinline__ void depthwise_tile(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias,
                                               int n, T* __restrict__ y) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* stages = reinterpret_cast<T*>(shared);
  const unsigned planes = static_cast<unsigned>(n) * kChannels;
  const unsigned units = (planes + Plan::kPlanes - 1) / Plan::kPlanes * Plan::kBands;
  int stage = 0;
  copy_unit<Plan>(stages, x, blockIdx.x, planes);
  close_copies();
  zero_borders<Plan>(stages);
  for (unsigned unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const T* now = stages + stage * Plan::kStageElements;
    if constexpr (Plan::kStages == 2) {
      stage ^= 1;
      if (unit + gridDim.x < units) copy_unit<Plan>(stages + stage * Plan::kStageElements, x, unit + gridDim.x, planes);
      close_copies();
    }
    wait_for_copies<Plan::kStages - 1>();
    __syncthreads();
    compute_unit<Plan>(now, w, bias, unit, planes, y);
    if constexpr (Plan::kStages == 1) return;  // the grid has a block for each unit
    __syncthreads();  // the next copies go where this unit was
  }
}
