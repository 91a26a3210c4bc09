// plugins/bulk.cuh for a CPU: barriers in shared memory that count arrivals and bytes. A copy arrives at once, a box of a tensor map swizzled.
#pragma once

#include <vector>

#include "common.cuh"

#define __grid_constant__

void init_barrier(unsigned address, unsigned arrivals = 1);
void arrive(unsigned address);
void expect_bytes(unsigned address, unsigned bytes);
inline void begin_barrier(unsigned address, unsigned bytes) {
  init_barrier(address);
  expect_bytes(address, bytes);
}
void begin_bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned barrier);

struct TensorMap {
  const void* tensor;
  int element_bytes;
  std::vector<int> shape, box;  // outermost axis first
};
inline void prefetch_map(const TensorMap*) {}
void begin_box(unsigned to, const TensorMap& map, const std::vector<int>& first, unsigned barrier);
template <typename... Indices>
void begin_tensor_copy(unsigned to, const TensorMap* map, Indices... first_and_barrier) {
  std::vector<int> first = {static_cast<int>(first_and_barrier)...};
  const unsigned barrier = first.back();
  first.pop_back();
  begin_box(to, *map, first, barrier);
}
template <int kRowBytes>
unsigned swizzled(unsigned address) { return address ^ (address / 128 % (kRowBytes / 16) * 16); }

void wait_for_bytes(unsigned address, unsigned parity = 0);
