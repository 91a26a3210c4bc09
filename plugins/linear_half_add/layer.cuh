// The layer that linear_half_add is compiled for (linear/sizes.cuh), in fp16 or bfloat16, as its arguments have it.
#pragma once

#include "linear/sizes.cuh"

#define ADDS_OTHER
#include "linear_half/outputs.cuh"

struct Layer : Outputs {
  __device__ __forceinline__ const T* row(int row) const { return x + static_cast<size_t>(row) * kInputs; }
};
