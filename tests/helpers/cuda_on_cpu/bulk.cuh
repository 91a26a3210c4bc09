// plugins/bulk.cuh for a CPU: barriers in shared memory that count bytes. Copies are not here.
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
  barrier.arrivals = 1;
  ++barrier.phases.generation;
}
inline void init_barrier(unsigned address) { barrier_of(*block, address) = {}; }
inline void expect_bytes(unsigned address, unsigned bytes) { change(barrier_of(*block, address), 1, bytes); }
