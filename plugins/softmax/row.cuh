// softmax of a row in the registers of kBlocks blocks of kThreads threads: one pass over memory, one exchange.
//
// Each warp finds the largest value and the sum of its own part, and tells it to all warps of the row: through shared memory,
// and where the row has several blocks, it sends them to each block of the cluster.
#pragma once

#include "block_cluster.cuh"
#include "bulk.cuh"
#include "softmax/softmax.cuh"

namespace softmax {

template <int kThreads>
using Row = RowPacks<T, kLength, kThreads>;
template <int kThreads>
using Values = float[Row<kThreads>::kEach][Row<kThreads>::kWide];

// before(packs, value) may change the values, which are those of the packs: value[i][j] is element j of pack i.
template <int kBlocks, int kThreads, typename Before>
__device__ __forceinline__ void row_in_registers(const T* __restrict__ x, T* __restrict__ y, Before before) {
  constexpr int kWarps = kThreads / 32;
  constexpr int kParts = kBlocks * kWarps;
  static_assert(kParts % 32 == 0 || 32 % kParts == 0, "parts are shared out to 32 lanes");
  __shared__ float2 parts[kParts];
  const unsigned rank = blockIdx.x % kBlocks;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#if __CUDA_ARCH__ >= 900
  __shared__ unsigned long long all_sent;
  const unsigned barrier = shared_address(&all_sent);
  if constexpr (kBlocks > 1) {
    if (threadIdx.x == 0) begin_barrier(barrier, sizeof(parts));
    cluster_arrive_relaxed();  // this block has a barrier, which others may count on
  }
#endif

  using Packs = Row<kBlocks * kThreads>;
  const Packs packs(x, blockIdx.x / kBlocks, rank * kThreads + threadIdx.x, nothing());
  Values<kBlocks * kThreads> value;
#pragma unroll
  for (int i = 0; i < Packs::kEach; ++i) {
#pragma unroll
    for (int j = 0; j < Packs::kWide; ++j) value[i][j] = packs.value(i, j);
  }
  before(packs, value);
  float largest = nothing();
#pragma unroll
  for (int i = 0; i < Packs::kEach; ++i) {
#pragma unroll
    for (int j = 0; j < Packs::kWide; ++j) largest = max_nan(largest, value[i][j]);
  }
  largest = lanes_max<32>(largest);
  const float reference = reference_of(largest);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < Packs::kEach; ++i) {
#pragma unroll
    for (int j = 0; j < Packs::kWide; ++j) sum += value[i][j] = exp_approx(value[i][j] - reference);
  }
  const float2 own = make_float2(largest, lanes_sum<32>(sum));

  if constexpr (kBlocks > 1) {
#if __CUDA_ARCH__ >= 900
    cluster_wait();
    if (lane < kBlocks) send_remote(shared_address(&parts[rank * kWarps + warp]), barrier, lane, own);
    wait_for_remote(barrier);
#endif
  } else {
    if (lane == 0) parts[warp] = own;
    __syncthreads();
  }
  float2 all = parts[lane % kParts];
  if constexpr (kParts > 32) {
    float2 more[kParts / 32];
    float most = nothing();
#pragma unroll
    for (int i = 0; i < kParts / 32; ++i) {
      more[i] = parts[i * 32 + lane];
      most = max_nan(most, more[i].x);
    }
    all = make_float2(most, 0.0f);
#pragma unroll
    for (int i = 0; i < kParts / 32; ++i) all.y += more[i].y * exp_approx(more[i].x - reference_of(most));
  }
  all = join<(kParts < 32 ? kParts : 32)>(all);

  const float factor = factor_of(largest, all);
  packs.store(y, [&](int i, int j) { return value[i][j] * factor; });
}

template <int kBlocks, int kThreads>
__device__ __forceinline__ void row_in_registers(const T* __restrict__ x, T* __restrict__ y) {
  row_in_registers<kBlocks, kThreads>(x, y, [](const Row<kBlocks * kThreads>&, Values<kBlocks * kThreads>&) {});
}

}  // namespace softmax
