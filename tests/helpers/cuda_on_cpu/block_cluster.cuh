// plugins/block_cluster.cuh for a CPU, which runs the blocks of a cluster one after the other from barrier to barrier.
#pragma once

#include "bulk.cuh"
#include "common.cuh"

inline void cluster_arrive() {}
inline void cluster_arrive_relaxed() {}
inline void cluster_wait() { wait_for_cluster(); }
inline float4 read_remote(const float* local, unsigned rank) {
  float4 four;
  const size_t place = reinterpret_cast<const unsigned char*>(local) - shared;
  std::memcpy(&four, rank == cluster->rank ? shared + place : cluster->blocks[rank].shared.data() + place, sizeof(four));
  return four;
}

inline unsigned char* remote_place(unsigned address, unsigned rank) {
  const size_t place = address - shared_address(shared);
  return rank == cluster->rank ? shared + place : cluster->blocks[rank].shared.data() + place;
}
template <int kCount>
void send_remote(unsigned local, unsigned barrier, unsigned rank, const float (&v)[kCount]) {
  if (local % sizeof(v) != 0) std::exit(2);
  std::memcpy(remote_place(local, rank), v, sizeof(v));
  change(barrier_of(cluster->blocks[rank], barrier), 0, -static_cast<long>(sizeof(v)));
}
inline void wait_for_remote(unsigned address, unsigned parity) { wait_for_bytes(address, parity); }
