// plugins/bulk.cuh for a CPU: barriers in shared memory that count arrivals and bytes. A copy arrives at once.
#pragma once

#include "common.cuh"

void init_barrier(unsigned address, unsigned arrivals = 1);
void arrive(unsigned address);
void expect_bytes(unsigned address, unsigned bytes);
void begin_bulk_copy(unsigned to, const void* from, unsigned bytes, unsigned barrier);
void wait_for_bytes(unsigned address, unsigned parity = 0);
