// linear_half by wgmma, Hopper's own instruction for its tensor cores: y = act(x w^T + bias), in fp16 or bfloat16.
//
// x [n, I], weights (w, packed: linear/packed.cuh), bias [O], y [n, O].
//
// Mapping: linear_half/by_wgmma.cuh. Wide tiles, of up to 256 or 192 outputs, read x less often; narrow ones, of up to 128, are for few rows.
// What is known of it: docs/kernels/linear.md.
#include "linear_half/layer.cuh"

#include "linear_half/by_wgmma.cuh"

struct Outputs : Layer {
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

// An entry for each width of tiles, and for the narrow ones by each number of blocks that divide the inputs.
#define BY_WGMMA(entry, cluster, columns, splits)                                                                            \
  ASSERT_LAUNCH(entry, kWgmmaThreads, (Plan<splits, columns>::kSharedBytes));                                                \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                                     \
      entry(const T* __restrict__ x, const T* __restrict__ weights, const T* __restrict__ bias, int n, T* __restrict__ y) {  \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                            \
    wait_for_previous_kernel();                                                                                              \
    extern __shared__ __align__(128) unsigned char shared[];                                                                 \
    dense_by_wgmma<Plan<splits, columns>>(shared, Tiled<Outputs>{{{x, weights, bias, n, y}}});                               \
  }
BY_WGMMA(linear_half_wide_wgmma, , 256, 1)
BY_WGMMA(linear_half_less_wide_wgmma, , 192, 1)
BY_WGMMA(linear_half_wgmma, , 128, 1)
BY_WGMMA(linear_half_by2_wgmma, __cluster_dims__(2, 1, 1), 128, 2)
BY_WGMMA(linear_half_by4_wgmma, __cluster_dims__(4, 1, 1), 128, 4)
BY_WGMMA(linear_half_by8_wgmma, __cluster_dims__(8, 1, 1), 128, 8)
