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
  template <typename Plan>
  struct Tile {
    static constexpr int kGroups = Plan::kColumns / kOrdered;
    const Layer& layer;
    const Place& place;
    Vector<T, kEight> biases[kGroups];  // of a lane's 8 neighbours of each 32 outputs; they come while it multiplies

    __device__ __forceinline__ Tile(const Layer& layer, const Place& place) : layer(layer), place(place) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        biases[group] = {};
        if (exists(group)) biases[group] = layer.bias_of(output_of(group));
      }
    }

    // `warp`: of those that multiply.
    __device__ __forceinline__ void finish(const float (&sums)[Plan::kColumns / 2], unsigned char* /* memory */, int warp) const {
      const int row = place.row + warp * 16 + threadIdx.x % 32 / 4;  // and the one 8 further
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float eight[kEight];
#pragma unroll
          for (int f = 0; f < kEight; ++f) {
            eight[f] = sums[2 * kEight * group + f / 2 * 4 + 2 * i + f % 2] + to_float(biases[group].value[f]);
          }
          if (exists(group) && row + 8 * i < layer.n) layer.store(eight, row + 8 * i, output_of(group));
        }
      }
    }

   private:
    __device__ __forceinline__ int output_of(int group) const { return place.column + group * kOrdered + threadIdx.x % 4 * kEight; }
    __device__ __forceinline__ bool exists(int group) const { return Plan::kFull || output_of(group) < kOutputs; }
  };
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
