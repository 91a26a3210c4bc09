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

// For each number of 16 bits of a lane: where it is in its registers, and in shared memory.
template <bool kTransposed, int kCount, typename Move>
void move_matrices(unsigned address, Move move) {
  const auto rows = everyone(address);
  const unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < kCount; ++i) {
    for (int e = 0; e < 2; ++e) {  // of a word
      const unsigned row = kTransposed ? 2 * t + e : g, column = kTransposed ? g : 2 * t + e;
      if (rows[i * 8 + row] % 16 != 0) std::exit(2);
      move(2 * i + e, at_address(rows[i * 8 + row] + column * 2));
    }
  }
}
template <bool kTransposed = false, int kCount>
void load_matrices(unsigned (&m)[kCount], unsigned address) {
  move_matrices<kTransposed, kCount>(address, [&](int i, const void* from) { std::memcpy(reinterpret_cast<uint16_t*>(m) + i, from, 2); });
}
template <bool kTransposed = false>
void store_matrices(unsigned address, const unsigned (&m)[4]) {
  move_matrices<kTransposed, 4>(address, [&](int i, void* to) { std::memcpy(to, reinterpret_cast<const uint16_t*>(m) + i, 2); });
}
