// group_norm (see kernel.cu) with a thread block cluster a group, where groups are few and large; sm_90 and newer.
//
// x [n, C, S], scale [C], bias [C] -> y [n, C, S].
//
// Mapping: 8 blocks a group. Each warp sends what it knows of the group to all blocks of the cluster. Bytes: as in kernel.cu.
#include "block_cluster.cuh"
#include "bulk.cuh"
#include "group_norm/group_norm.cuh"

using namespace group_norm;
constexpr int kBlocks = 8, kThreads = 512, kWarps = kThreads / 32, kParts = kBlocks * kWarps;
struct Shared {
  Part parts[kParts];  // of the warps of all blocks
  alignas(16) unsigned long long all_sent;
};
ASSERT_LAUNCH(group_norm_cluster8, kThreads, sizeof(Shared));

extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads)
    group_norm_cluster8(const T* __restrict__ x, const T* __restrict__ scale, const T* __restrict__ bias, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  const Shared& all = *reinterpret_cast<const Shared*>(shared);
  const unsigned barrier = shared_address(&all.all_sent);
  if (threadIdx.x == 0) begin_barrier(barrier, sizeof(all.parts));
  cluster_arrive_relaxed();  // this block has a barrier, which others may count on
  const int rank = blockIdx.x % kBlocks, lane = threadIdx.x % 32;
  const Group<kBlocks * kThreads> group(x, blockIdx.x / kBlocks, rank * kThreads + threadIdx.x);
  const Part part = group.of_warp();
  cluster_wait();
  if (lane < kBlocks) send_remote(shared_address(&all.parts[rank * kWarps + threadIdx.x / 32]), barrier, lane, part);
  wait_for_remote(barrier);
  Part parts[kParts / 32];
#pragma unroll
  for (int i = 0; i < kParts / 32; ++i) parts[i] = all.parts[i * 32 + lane];
  group.store(joined<32>(parts), scale, bias, y);
}
