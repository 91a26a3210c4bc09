// plugins/copies.cuh for a CPU: copies arrive only when they are waited for.
#pragma once

#include "bulk.cuh"
#include "common.cuh"

#include <deque>

struct Copy { unsigned to; const void* from; int bytes, count; };
struct Copies { std::vector<Copy> open; std::deque<std::vector<Copy>> groups; };
inline Copies& my_copies() {
  static std::vector<Copies> all(1024);
  return all[threadIdx.x];
}

template <int kBytes>
void copy_async(unsigned to, const void* from, int bytes = kBytes) {
  if (to % kBytes != 0 || reinterpret_cast<size_t>(from) % kBytes != 0) std::exit(2);
  my_copies().open.push_back({to, from, bytes, kBytes});
}
inline void copy_async_commit() {
  my_copies().groups.push_back(std::move(my_copies().open));
  my_copies().open.clear();
}
inline void finish(const std::vector<Copy>& group) {
  for (const Copy& copy : group) {
    std::memset(at_address(copy.to), 0, copy.count);
    std::memcpy(at_address(copy.to), copy.from, copy.bytes);
  }
}
template <int kPending>
void copy_async_wait() {
  auto& groups = my_copies().groups;
  for (; groups.size() > kPending; groups.pop_front()) finish(groups.front());
}
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
