// A dense layer in fp16 or bfloat16 whose rows of x follow each other, as its kernels' arguments have it. The kernel's own sizes are included before.
#pragma once

#include "linear_half/outputs.cuh"

struct Layer : Outputs {
  __device__ __forceinline__ const T* row(int row) const { return x + static_cast<size_t>(row) * kInputs; }
};
