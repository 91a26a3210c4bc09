// The arguments of a dense layer in fp16 or bfloat16, but for where a row of x lies, and how sums become outputs.
//
// x, weights (w, packed: linear/packed.cuh), bias [O], y [n, O].
#pragma once

#include "linear/packed.cuh"
#include "windows/activation.cuh"

static_assert(sizeof(T) == 2);

// An entry for each width of tiles, and for the narrow ones by each number of blocks that divide the inputs: those of Product.wide() and narrow()
// in linear/declaration.py. `Arguments` begins with Outputs, and has begin_copy. The file includes linear_half/by_wgmma.cuh.
#define ENTRIES_BY_WGMMA(kernel, Arguments)                                          \
  ENTRY_BY_WGMMA(kernel##_wide_wgmma, Arguments, , 256, 1)                           \
  ENTRY_BY_WGMMA(kernel##_less_wide_wgmma, Arguments, , 192, 1)                      \
  ENTRY_BY_WGMMA(kernel##_wgmma, Arguments, , 128, 1)                                \
  ENTRY_BY_WGMMA(kernel##_by2_wgmma, Arguments, __cluster_dims__(2, 1, 1), 128, 2)   \
  ENTRY_BY_WGMMA(kernel##_by4_wgmma, Arguments, __cluster_dims__(4, 1, 1), 128, 4)   \
  ENTRY_BY_WGMMA(kernel##_by8_wgmma, Arguments, __cluster_dims__(8, 1, 1), 128, 8)
#define ENTRY_BY_WGMMA(entry, Arguments, cluster, columns, splits)                                                              \
  ASSERT_LAUNCH(entry, kWgmmaThreads, (Plan<splits, columns>::kSharedBytes));                                                   \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                                        \
      entry(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int rows, T* __restrict__ y) {  \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                               \
    wait_for_previous_kernel();                                                                                                 \
    extern __shared__ __align__(128) unsigned char shared[];                                                                    \
    dense_by_wgmma<Plan<splits, columns>>(shared, Arguments{x, weights, bias, rows, y});                                        \
  }

struct Outputs {
  const T* __restrict__ x;
  const T* __restrict__ weights;
  const T* __restrict__ bias;
  const int n;  // rows
  T* __restrict__ y;

  // Sums of a row become outputs.
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&sums)[kCount], int /* largest */, int row, int column) const {
    const Vector<T, kCount> of_bias = load_vector<kCount>(bias + column);
    Vector<T, kCount> outputs;
#pragma unroll
    for (int i = 0; i < kCount; ++i) outputs.value[i] = from_float<T>(activate<kActivation>(sums[i] + to_float(of_bias.value[i])));
    store_vector(y + (static_cast<size_t>(row) * kOutputs + column), outputs);
  }

  // The sums of a lane begin as its biases: of outputs 2 t and 2 t + 1 of each 8, in both of its rows. Blocks that divide the inputs add biases when
  // they are together.
  template <typename Plan>
  __device__ __forceinline__ void begin_sums(float (&sums)[Plan::kColumns / 2], int column) const {
#pragma unroll
    for (int j = 0; j < Plan::kColumns / kEight; ++j) {
      const int feature = column + j * kEight;
      Vector<T, 2> of_bias = {};
      if (Plan::kSplits == 1 && (Plan::kFull || feature < kOutputs)) of_bias = load_vector<2>(bias + feature);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[4 * j + i] = to_float(of_bias.value[i % 2]);
    }
  }

  // A lane's sums of rows `row` and 8 further become outputs. Two lanes trade: one has 4 neighbouring outputs of 8 then, the other 4 of the next 8.
  template <typename Plan>
  __device__ __forceinline__ void finish_lane(const float (&sums)[Plan::kColumns / 2], int row, int column) const {
    const int t = threadIdx.x % 4, odd = t % 2;
    T* const to = y + (static_cast<size_t>(row) * kOutputs + column + odd * kEight + t / 2 * 4);
#pragma unroll
    for (int j = 0; j < Plan::kColumns / kEight; j += 2) {
      const bool exists = Plan::kFull || column + (j + odd) * kEight < kOutputs;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        unsigned pairs[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float* const two = sums + 4 * (j + k) + 2 * i;
          const Vector<T, 2> pair = {from_float<T>(activate<kActivation>(two[0])), from_float<T>(activate<kActivation>(two[1]))};
          pairs[k] = *reinterpret_cast<const unsigned*>(&pair);
        }
        const unsigned traded = __shfl_xor_sync(kAllLanes, odd ? pairs[0] : pairs[1], 1);
        const Vector<unsigned, 2> four = {odd ? traded : pairs[0], odd ? pairs[1] : traded};
        if (exists && row + 8 * i < n) store_vector(reinterpret_cast<unsigned*>(to + 8 * i * kOutputs + j * kEight), four);
      }
    }
  }
};
