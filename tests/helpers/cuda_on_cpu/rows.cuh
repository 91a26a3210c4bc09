// plugins/rows.cuh for a CPU: what kernels that run here use of it.
#pragma once

#include "common.cuh"

template <int kLanes>
float lanes_sum(float value) {
  for (int offset = kLanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}
