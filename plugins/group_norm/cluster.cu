// group_norm (see kernel.cu) with a thread block cluster a group, where groups are few and large; sm_90 and newer.
//
// x [n, C, S], scale [C], bias [C] -> y [n, C, S].
//
// Mapping: the threads of 8 blocks hold a group in registers. Each warp sends its sum to all blocks of the cluster, then its squared distances
// from the mean. Bytes: x and y once.
#include "block_cluster.cuh"
#include "bulk.cuh"
#include "group_norm/group_norm.cuh"

using namespace group_norm;
constexpr int kBlocks = 8, kThreads = 512, kWarps = kThreads / 32, kParts = kBlocks * kWarps;
// Sums of the warps of all blocks, and the barrier that counts them.
struct Shared {
  float parts[kParts];
  unsigned long long all_sent;

  __device__ __forceinline__ unsigned barrier() const { return shared_address(&all_sent); }
  __device__ __forceinline__ void begin() const { begin_barrier(barrier(), sizeof(parts)); }

  // Adds up what all threads of the cluster have; each gets the sum.
  __device__ __forceinline__ float sum(float value, int rank) const {
    const int lane = threadIdx.x % 32;
    const float of_warp = lanes_sum<32>(value);
    if (lane < kBlocks) send_remote(shared_address(&parts[rank * kWarps + threadIdx.x / 32]), barrier(), lane, of_warp);
    wait_for_remote(barrier());
    float all = 0.0f;
#pragma unroll
    for (int i = 0; i < kParts; i += 32) all += parts[i + lane];
    return lanes_sum<32>(all);
  }
};
ASSERT_LAUNCH(group_norm_cluster8, kThreads, 2 * sizeof(Shared));

extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads)
    group_norm_cluster8(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  const Shared &sums = reinterpret_cast<const Shared*>(shared)[0], &squares = reinterpret_cast<const Shared*>(shared)[1];
  if (threadIdx.x == 0) sums.begin(), squares.begin();
  cluster_arrive_relaxed();  // this block has barriers, which others may count on
  const int rank = blockIdx.x % kBlocks, row = blockIdx.x / kBlocks;
  const RowPacks<T, kLength, kBlocks * kThreads> packs(x, row, rank * kThreads + threadIdx.x, 0.0f);
  cluster_wait();
  const float mean = sums.sum(sum_of(packs), rank) * (1.0f / kLength);
  const float inverse = inverse_deviation(squares.sum(squares_of(packs, mean), rank));
  Normal(scale, bias, row % kGroups, mean, inverse).store(packs, y);
}
