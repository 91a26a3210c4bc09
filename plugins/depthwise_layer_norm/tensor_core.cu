// depthwise_layer_norm on tensor cores: y = LayerNormalization(Conv(x, w) + bias) over the channels, a filter of 7x7 for each, in fp16 and bfloat16.
//
// x [n, H, W, C], filters (w, packed: layer.cuh), bias, scale and shift [C] -> y [n, H, W, C]; padding 3.
//
// Mapping: a block has some tiles (tile.cuh) with all channels, or the blocks of a cluster have some channels each. A warp has eight channels of a
// tile and keeps their sums: first products (products.cuh), then the norm (norm.cuh). Blocks with all channels are persistent: while one computes,
// x of its next tiles arrives.
// Bytes: x once, and the border of tiles from L2; y once.
// What is known of it: docs/kernels/convnext.md.
#include "depthwise_layer_norm/norm.cuh"
#include "depthwise_layer_norm/products.cuh"

template <int kBlocks>
__device__ __forceinline__ void convolve_and_normalise(unsigned char* memory, const Layer& layer) {
  using P = Plan<kBlocks>;
  const unsigned shared = shared_address(memory), sent = P::sent(shared);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int stage = 0; stage < P::kStages; ++stage) init_barrier(P::x_arrived(shared, stage), kCopyThreads);
    init_barrier(P::weights_arrived(shared), kCopyThreads);
    if constexpr (kBlocks > 1) {
      init_barrier(sent);
      expect_bytes(sent, P::tiles(layer.n, P::first_tile()) * kBlocks * kPixels * 8);
    }
  }
  if constexpr (kBlocks > 1) cluster_arrive_relaxed();
  __syncthreads();  // the barriers are there
  int first_tile = P::first_tile();
  begin_weights<P>(shared, layer);  // no kernel writes them: those in front may still be running
  wait_for_previous_kernel();
  allow_next_kernel();
  begin_x<P>(shared, layer, first_tile, 0);
  const int warp = threadIdx.x / 32, tile = warp / P::kOwn, group = warp % P::kOwn, thread = threadIdx.x - tile * P::kThreads;
  const unsigned char* const filters = memory + P::kFiltersAt + group * kGroupTaps * 2;
  const T* const bias = reinterpret_cast<const T*>(memory + P::kBiasAt) + group * kEight;
  const T* const scale = reinterpret_cast<const T*>(memory + P::kScaleAt) + group * kEight;
  const T* const shift = reinterpret_cast<const T*>(memory + P::kShiftAt) + group * kEight;
  const Join<P> join{reinterpret_cast<float4*>(memory + P::kNormsAt + tile * P::kNormBytes), thread};
#pragma unroll 1
  for (int turn = 0;; ++turn) {
    const int stage = turn % P::kStages, next = first_tile + P::stride();
    if (P::kStages > 1 && next < layer.n * kTilesOfImage) begin_x<P>(shared, layer, next, 1 - stage);
    const bool has_tile = tile < P::tiles(layer.n, first_tile), has_channels = has_tile && group < P::groups_of(P::rank());
    unsigned char* const x = memory + stage * P::kStageBytes + tile * P::kXBytes;
    float sums[kEight][4];
    wait_for_bytes(P::weights_arrived(shared));  // the first time, as its phase ends once
    wait_for_bytes(P::x_arrived(shared, stage), turn / P::kStages % 2);
    if (has_channels) {
      const Vector<T, kEight> biases = load_vector<kEight>(bias);
#pragma unroll
      for (int i = 0; i < kEight * 4; ++i) sums[i / 4][i % 4] = to_float(biases.value[i / 4]);
      multiply(sums, x, filters, group);
      mend(sums, x, filters, group, bias);
      leave_moments(join.parts, group, sums);
    }
    if constexpr (kBlocks > 1) cluster_wait();  // the barriers of all are there
    __syncthreads();
    if (has_tile) join.groups(sent);
    if constexpr (kBlocks > 1) {
      wait_for_remote(sent, 0);
      if (has_tile) join.blocks();
    }
    __syncthreads();
    const Outputs<P> outputs{x};
    if (has_channels) outputs.normalise(load_vector<kEight>(scale), load_vector<kEight>(shift), join.of_all(), sums, group);
    __syncthreads();
    if (has_tile) outputs.store(layer, Place(first_tile + tile), thread);
    if (P::kStages == 1 || next >= layer.n * kTilesOfImage) break;
    publish_to_units();  // outputs were where x of the next tiles but one arrives
    __syncthreads();
    first_tile = next;
  }
}

#define ENTRY(name, blocks, cluster)                                                                                                               \
  ASSERT_LAUNCH_WHERE(depthwise_layer_norm_##name, is_written_for(LAUNCH_THREADS) && LAUNCH_THREADS >= Plan<blocks>::kThreads,                     \
                      Plan<blocks>::kSharedBytes);                                                                                                 \
  extern "C" __global__ void cluster __launch_bounds__(LAUNCH_THREADS, larger(1, 480 / LAUNCH_THREADS))                                            \
      depthwise_layer_norm_##name(const T* __restrict__ x, const T* __restrict__ filters, const T* __restrict__ bias, const T* __restrict__ scale, \
                                  const T* __restrict__ shift, int n, T* __restrict__ y MAP_PARAMETERS) {                                          \
    extern __shared__ __align__(kSwizzleAlign) unsigned char shared[];                                                                             \
    convolve_and_normalise<blocks>(shared, {x, filters, bias, scale, shift, n, y MAP_ARGUMENTS});                                                  \
  }

ENTRY(tensor, 1, )
ENTRY(by2, 2, __cluster_dims__(2, 1, 1))
ENTRY(by4, 4, __cluster_dims__(4, 1, 1))
ENTRY(by8, 8, __cluster_dims__(8, 1, 1))
