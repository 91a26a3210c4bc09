// plugins/block_cluster.cuh for a CPU, which runs the blocks of a cluster one after the other from barrier to barrier.
#pragma once

#include "bulk.cuh"
#include "common.cuh"

inline void cluster_arrive() {}
inline void cluster_arrive_relaxed() {}
inline void cluster_wait() { wait_for_cluster(); }
unsigned char* remote_place(unsigned address, unsigned rank);
void bytes_arrive(unsigned barrier, unsigned rank, int bytes);
inline float4 read_remote(const float* local, unsigned rank) {
  float4 four;
  std::memcpy(&four, remote_place(shared_address(local), rank), sizeof(four));
  return four;
}
template <typename Value>
void send_remote(unsigned local, unsigned barrier, unsigned rank, const Value& value) {
  if (local % sizeof(value) != 0) std::exit(2);
  std::memcpy(remote_place(local, rank), &value, sizeof(value));
  bytes_arrive(barrier, rank, sizeof(value));
}
inline void wait_for_remote(unsigned address, unsigned parity = 0) { wait_for_bytes(address, parity); }
