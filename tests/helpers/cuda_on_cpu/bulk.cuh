// plugins/bulk.cuh for a CPU: barriers in shared memory that count arrivals and bytes. A copy arrives at once.
#pragma once

#include "common.cuh"

inline Barrier& barrier_of(Block& of, unsigned address) {
  if (address % 8 != 0) std::exit(2);
  return of.barriers[address];
}
inline void change(Barrier& barrier, int arrivals, long bytes) {
  barrier.arrivals -= arrivals;
  barrier.bytes += bytes;
  if (barrier.arrivals > 0 || barrier.bytes != 0) return;
  barrier.arrivals = barrier.count;
  ++barrier.phases.generation;
}
inline void init_barrier(unsigned address, unsigned arrivals = 1) {
  barrier_of(*block, address) = {{}, static_cast<int>(arrivals), static_cast<int>(arrivals)};
}
inline void arrive(unsigned address) { change(barrier_of(*block, address), 1, 0); }
inline void expect_bytes(unsigned address, unsigned bytes) { change(barrier_of(*block, address), 1, bytes); }
inline void begin_bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  if (to % 16 != 0 || bytes % 16 != 0 || reinterpret_cast<size_t>(from) % 16 != 0) std::exit(2);
  std::memcpy(at_address(to), from, bytes);
  change(barrier_of(*block, barrier), 0, -static_cast<long>(bytes));
}
inline void wait_for_bytes(unsigned address, unsigned parity = 0) {
  const Group& phases = barrier_of(*block, address).phases;
  if (phases.generation % 2 == parity) wait_for_next(phases);  // else that phase has ended
}
