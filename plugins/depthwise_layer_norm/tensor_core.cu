// depthwise_layer_norm on tensor cores: y = LayerNormalization(Conv(x, w) + bias) over the channels, a filter of 7x7 for each, in fp16 and bfloat16.
//
// x [n, H, W, C], filters (w, packed: layer.cuh), bias, scale and shift [C] -> y [n, H, W, C]; padding 3.
//
// Mapping: a block has some tiles (tile.cuh) with all channels, or the blocks of a cluster have some channels each. A warp has eight channels of a
// tile and keeps their sums: first products (products.cuh), then the norm (norm.cuh).
// Bytes: x once, and the border of tiles from L2; y once.
// What is known of it: docs/kernels/convnext.md.
#include "depthwise_layer_norm/norm.cuh"
#include "depthwise_layer_norm/products.cuh"

template <int kBlocks>
__device__ __forceinline__ void convolve_and_normalise(unsigned char* shared, const Layer& layer) {
  using P = Plan<kBlocks>;
  const unsigned arrived = shared_address(shared) + P::kBarriersAt, sent = arrived + 8;
  if (threadIdx.x == 0) {
    init_barrier(arrived);
    if constexpr (kBlocks > 1) begin_barrier(sent, P::tiles(layer.n) * kBlocks * kPixels * 8);
    if constexpr (kMapped) begin_bulk_copies<P>(shared_address(shared), layer, arrived);
  }
  if constexpr (kBlocks > 1) cluster_arrive_relaxed();
  const int warp = threadIdx.x / 32, tile = warp / P::kOwn, group = warp % P::kOwn, thread = threadIdx.x - tile * P::kThreads;
  const int channel = (P::first_group(P::rank()) + group) * kEight;
  const bool has_tile = tile < P::tiles(layer.n), has_channels = has_tile && group < P::groups_of(P::rank());
  unsigned char *const x = shared + tile * P::kXBytes, *const filters = shared + P::kFiltersAt + group * kGroupTaps * 2;
  const Join<P> join{reinterpret_cast<float4*>(shared + P::kNormsAt + tile * P::kNormBytes), thread};
  float sums[kEight][4];
  Vector<T, kEight> bias = {};
  if (has_channels) bias = load_vector<kEight>(layer.bias + channel);
#pragma unroll
  for (int i = 0; i < kEight * 4; ++i) sums[i / 4][i % 4] = to_float(bias.value[i / 4]);
  if constexpr (kMapped) {
    __syncthreads();  // the barrier is there
    wait_for_bytes(arrived, 0);
  } else {
    begin_copies<P>(shared_address(shared), layer);
  }
  if (has_channels) {
    multiply(sums, x, filters, group);
    mend(sums, x, filters, group, bias);
    leave_moments(join.parts, group, sums);
  }
  if constexpr (kBlocks > 1) cluster_wait();  // the barriers of all are there
  __syncthreads();
  if (has_tile) join.groups(sent);
  if constexpr (kBlocks > 1) {
    wait_for_remote(sent);
    if (has_tile) join.blocks();
  }
  __syncthreads();
  const Outputs<P> outputs{x};
  if (has_channels) outputs.normalise(layer, join.of_all(), sums, group, channel);
  __syncthreads();
  if (has_tile) outputs.store(layer, Place(P::first_tile() + tile), thread);
}

#define ENTRY(name, blocks, cluster)                                                                                                               \
  ASSERT_LAUNCH_WHERE(depthwise_layer_norm_##name, is_written_for(LAUNCH_THREADS) && LAUNCH_THREADS >= Plan<blocks>::kThreads,                     \
                      Plan<blocks>::kSharedBytes);                                                                                                 \
  extern "C" __global__ void cluster __launch_bounds__(LAUNCH_THREADS, larger(1, 480 / LAUNCH_THREADS))                                            \
      depthwise_layer_norm_##name(const T* __restrict__ x, const T* __restrict__ filters, const T* __restrict__ bias, const T* __restrict__ scale, \
                                  const T* __restrict__ shift, int n, T* __restrict__ y MAP_PARAMETERS) {                                          \
    wait_for_previous_kernel();                                                                                                                    \
    extern __shared__ __align__(kSwizzleAlign) unsigned char shared[];                                                                             \
    convolve_and_normalise<blocks>(shared, {x, filters, bias, scale, shift, n, y MAP_ARGUMENTS});                                                  \
  }

ENTRY(tensor, 1, )
ENTRY(by2, 2, __cluster_dims__(2, 1, 1))
ENTRY(by4, 4, __cluster_dims__(4, 1, 1))
ENTRY(by8, 8, __cluster_dims__(8, 1, 1))
