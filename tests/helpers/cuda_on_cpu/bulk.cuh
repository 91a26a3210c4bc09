// plugins/bulk.cuh for a CPU: barriers in shared memory that count arrivals and bytes. A copy arrives at once, a box of a tensor map swizzled.
#pragma once

#include "common.cuh"

#ifndef LAUNCH_MAPS
#define LAUNCH_MAPS 0
#endif
#define __grid_constant__

void init_barrier(unsigned address, unsigned arrivals = 1);
void arrive(unsigned address);
void expect_bytes(unsigned address, unsigned bytes);
void begin_bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned barrier);

struct TensorMap {  // of an array of two axes
  const void* tensor;
  int element_bytes;
  long rows, columns;
  int box_rows, box_columns;
};
inline void prefetch_map(const TensorMap*) {}
void begin_tensor_copy(unsigned to, const TensorMap* map, int row, int column, unsigned barrier);
template <int kRowBytes>
unsigned swizzled(unsigned address) { return address ^ (address / 128 % (kRowBytes / 16) * 16); }

void wait_for_bytes(unsigned address, unsigned parity = 0);
