// The depthwise convolution from shared memory. A unit is a few planes, or a band of rows of one; a block copies it with its
// border of zeros, then each thread computes kRows rows of kRun outputs without a test.
#pragma once

#include "planes.cuh"

template <int kRows_, int kThreads_>
struct Tiling {
  static constexpr int kRows = kRows_, kThreads = kThreads_;
  static constexpr int kTiles = ceil_div(Layer::kOutHeight, kRows);  // of a plane, from top to bottom
  static constexpr int kFit = kThreads / Layer::kStrips;
  static_assert(kFit > 0, "a row of outputs has more strips than a block has threads");
  static constexpr int kBandTiles = kTiles < kFit ? kTiles : kFit;
  static constexpr int kBands = ceil_div(kTiles, kBandTiles);
  static constexpr int kPlanes = kThreads / (Layer::kStrips * kBandTiles);
  static constexpr int kRowsOfX = (kBandTiles * kRows - 1) * Layer::kStride + Layer::kSize;
  static constexpr int kPitch = round_up(kPack + Layer::kWidth + Layer::kPad, kPack);
  static constexpr int kSharedBytes = kPlanes * kRowsOfX * kPitch * static_cast<int>(sizeof(T));
};

template <typename Plan>
__device__ __forceinline__ void compute_unit(const T* rows, const T* __restrict__ w, const T* __restrict__ bias,
                                             unsigned unit, unsigned planes, T* __restrict__ y) {
  using In = Reads<Layer, greatest_divisor(Layer::kRun * Layer::kStride, 4)>;
  using Tile = Results<Layer, Convolution, Plan::kRows>;
  constexpr int kLeft = kPack - Layer::kPad - In::kSkip;  // the first column that the first strip reads
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
  const T* from = rows + (plane_of_unit * Plan::kRowsOfX + tile_of_band * Plan::kRows * Layer::kStride) * Plan::kPitch +
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
  T* rows = reinterpret_cast<T*>(shared);
  const unsigned planes = static_cast<unsigned>(n) * kChannels;
  const unsigned first_plane = blockIdx.x / Plan::kBands * Plan::kPlanes;
  const int top = blockIdx.x % Plan::kBands * (Plan::kBandTiles * Plan::kRows * Layer::kStride) - Layer::kPad;
  copy_planes<Plan::kPlanes, Plan::kRowsOfX, Plan::kPitch, Plan::kThreads>(rows, x, first_plane, planes, top, threadIdx.x);
  zero_borders<Plan::kPlanes * Plan::kRowsOfX, Plan::kPitch, Plan::kThreads>(rows, threadIdx.x);
  copy_async_wait_all();
  __syncthreads();
  compute_unit<Plan>(rows, w, bias, blockIdx.x, planes, y);
}
