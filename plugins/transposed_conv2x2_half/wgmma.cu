// transposed_conv2x2_half by wgmma, Hopper's own instruction for its tensor cores: y = act(transposed conv(x, w) + bias), 2x2 filters at stride 2,
// channels last, in fp16 and bfloat16.
//
// x [n, H, W, C], weights (w, packed: layer.cuh), bias [K], y [n, 2 H, 2 W, K].
//
// Mapping: linear_half/by_wgmma.cuh, with pixels of x as rows. A lane stores 8 neighbours of y, four lanes 64 bytes. Where the weights of a wide
// tile's columns find room in shared memory, they stay there. Bytes: x once for each 256 outputs, the weights once a block, or once a tile; y once.
// What is known of it: docs/kernels/transposed_conv2x2.md.
#include "transposed_conv2x2_half/layer.cuh"

#include "linear_half/by_wgmma.cuh"

struct Squares : Layer {
  // The first output of a lane among those of the columns `ordered`, ordered + 1, ... of 32.
  static __device__ __forceinline__ int output_of(int column, int ordered) {
    return column + ordered * kOrdered + threadIdx.x % 4 * kEight;
  }

  // Sums begin as biases: of a lane's 8 neighbours of each 32 outputs, in both of its rows.
  template <typename Plan>
  __device__ __forceinline__ void begin_sums(float (&sums)[Plan::kColumns / 2], int column) const {
#pragma unroll
    for (int ordered = 0; ordered < Plan::kColumns / kOrdered; ++ordered) {
      const int output = output_of(column - threadIdx.x % 4 * 2, ordered);
      Vector<T, kEight> of_bias = {};
      if (Plan::kFull || output < kOutputs) of_bias = bias_of(output);
#pragma unroll
      for (int i = 0; i < 2 * kEight; ++i) sums[2 * kEight * ordered + i] = to_float(of_bias.value[i / 4 * 2 + i % 2]);
    }
  }

  // A lane's sums of rows `row` and 8 further become outputs.
  template <typename Plan>
  __device__ __forceinline__ void finish_lane(const float (&sums)[Plan::kColumns / 2], int row, int column) const {
#pragma unroll
    for (int ordered = 0; ordered < Plan::kColumns / kOrdered; ++ordered) {
      const int output = output_of(column, ordered);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float eight[kEight];
#pragma unroll
        for (int f = 0; f < kEight; ++f) eight[f] = sums[2 * kEight * ordered + f / 2 * 4 + 2 * i + f % 2];
        if ((Plan::kFull || output < kOutputs) && row + 8 * i < n) store(eight, row + 8 * i, output);
      }
    }
  }
};

template <int kMostColumns, bool kWeightsStay>
using SquarePlan = Plan<1, kMostColumns, kOrdered, kWeightsStay>;

// An entry for each kind of tile.
#define BY_WGMMA(entry, columns, stays)                                                                                      \
  ASSERT_LAUNCH(entry, kWgmmaThreads, (SquarePlan<columns, stays>::kSharedBytes));                                           \
  extern "C" __global__ void __launch_bounds__(kWgmmaThreads, 1)                                                             \
      entry(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int n, T* __restrict__ y) {  \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                            \
    wait_for_previous_kernel();                                                                                              \
    extern __shared__ __align__(128) unsigned char shared[];                                                                 \
    dense_by_wgmma<SquarePlan<columns, stays>>(shared, Tiled<Squares>{{{x, weights, bias, n, y}}});                          \
  }
BY_WGMMA(transposed_conv2x2_half_staying_wgmma, 256, true)
BY_WGMMA(transposed_conv2x2_half_wide_wgmma, 256, false)
BY_WGMMA(transposed_conv2x2_half_wgmma, 128, false)
