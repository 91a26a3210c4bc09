// The layer that linear_half is compiled for (linear/sizes.cuh), in fp16 or bfloat16, as its arguments have it.
#pragma once

#include "linear/sizes.cuh"

static_assert(sizeof(T) == 2);

struct Layer {
  const T* __restrict__ x;
  const T* __restrict__ weights;
  const T* __restrict__ bias;
  const int n;
  T* __restrict__ y;

  __device__ __forceinline__ const T* row(int row) const { return x + static_cast<size_t>(row) * kInputs; }

  // Sums of a row become outputs.
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&sums)[kCount], int /* largest */, int row, int column) const {
    const Vector<T, kCount> of_bias = load_vector<kCount>(bias + column);
    Vector<T, kCount> outputs;
#pragma unroll
    for (int i = 0; i < kCount; ++i) outputs.value[i] = from_float<T>(activate<kActivation>(sums[i] + to_float(of_bias.value[i])));
    store_vector(y + (static_cast<size_t>(row) * kOutputs + column), outputs);
  }
};
