// plugins/copies.cuh for a CPU: copies arrive only when they are waited for.
#pragma once

#include "bulk.cuh"
#include "common.cuh"

void begin_copy(unsigned to, const void* from, int bytes, int count);  // the rest of `count` is zeros
void copy_async_commit();
void finish_copies(size_t pending);

template <int kBytes>
void copy_async(unsigned to, const void* from, int bytes = kBytes) { begin_copy(to, from, bytes, kBytes); }
template <int kPending>
void copy_async_wait() { finish_copies(kPending); }
inline void copy_async_wait_all() {
  copy_async_commit();
  copy_async_wait<0>();
}
inline void arrive_with_copies(unsigned barrier) {
  copy_async_wait_all();
  arrive(barrier);
}

template <bool kTransposed = false, int kCount>
void load_matrices(unsigned (&m)[kCount], unsigned address) {
  const auto rows = everyone(address);
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < kCount; ++i) {
    for (int e = 0; e < 2; ++e) {  // of a word
      const unsigned row = kTransposed ? 2 * t + e : g, column = kTransposed ? g : 2 * t + e;
      const unsigned from = rows[i * 8 + row];
      if (from % 16 != 0) std::exit(2);
      std::memcpy(reinterpret_cast<uint16_t*>(&m[i]) + e, at_address(from + column * 2), 2);
    }
  }
}
