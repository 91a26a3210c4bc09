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
#include "split_floats/pair_bits.cuh"

struct Squares : Layer {
  template <typename Plan>
  struct Stored {
    static constexpr int kParts = Plan::kColumns / kOrdered;  // 32 outputs of a row, of which a lane has 8 neighbours
    const Layer& layer;
    const int first_row;  // of the lane, in a tile; it has the one 8 further, too
    Place place;
    Vector<T, kEight> biases[kParts];
    Vector<unsigned, kEight / 2> eights[kParts][2];  // outputs; as words, so that two have one register

    // Nothing is stored before outputs are taken.
    __device__ __forceinline__ Stored(const Layer& layer, unsigned char* /* memory */, int warp)
        : layer(layer), first_row(warp * 16 + threadIdx.x % 32 / 4), place{layer.n, 0} {}

    __device__ __forceinline__ void begin(const Place& next) {
      place = next;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        biases[part] = {};
        if (exists(part)) biases[part] = layer.bias_of(output_of(part));
      }
    }

    __device__ __forceinline__ void take(const float (&sums)[Plan::kColumns / 2]) {
#pragma unroll
      for (int i = 0; i < Plan::kColumns / 4; ++i) {
        const int part = i / kEight, word = i % kEight / 2;
        T pair[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) pair[e] = activated<kActivation, T>(sums[2 * i + e] + to_float(biases[part].value[2 * word + e]));
        eights[part][i % 2].value[word] = pair_bits(pair[0], pair[1]);
      }
    }

    __device__ __forceinline__ void store(int part) const {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = place.row + first_row + 8 * i;
        if (exists(part) && row < layer.n) store_vector(reinterpret_cast<unsigned*>(layer.place(row, output_of(part))), eights[part][i]);
      }
    }

   private:
    __device__ __forceinline__ int output_of(int part) const { return place.column + part * kOrdered + threadIdx.x % 4 * kEight; }
    __device__ __forceinline__ bool exists(int part) const { return Plan::kFull || output_of(part) < kOutputs; }
  };
};

template <int kMostColumns, bool kWeightsStay>
using SquarePlan = Plan<1, kMostColumns, kOrdered, kWeightsStay>;

// An entry for each kind of tile.
#define BY_WGMMA(entry, columns, stays)                                                                                                    \
  ASSERT_LAUNCH(entry, kWgmmaThreads, (SquarePlan<columns, stays>::kSharedBytes));                                                         \
  extern "C" __global__ void __launch_bounds__(kWgmmaThreads, 1)                                                                           \
      entry(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int n, T* __restrict__ y MAP_PARAMETERS) { \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                                          \
    extern __shared__ __align__(kStagesAlign) unsigned char shared[];                                                                      \
    dense_by_wgmma<SquarePlan<columns, stays>>(shared, Rows<Squares>{{{x, weights, bias, n, y}} MAP_ARGUMENTS});                           \
  }
BY_WGMMA(transposed_conv2x2_half_staying_wgmma, 256, true)
BY_WGMMA(transposed_conv2x2_half_wide_wgmma, 256, false)
BY_WGMMA(transposed_conv2x2_half_wgmma, 128, false)
