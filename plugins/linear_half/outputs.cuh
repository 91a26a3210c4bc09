// The arguments of a dense layer in fp16 or bfloat16, but for where a row of x lies, and how sums become outputs.
//
// x, weights (w, packed: linear/packed.cuh), bias [O], y [n, O].
#pragma once

#include "linear/packed.cuh"
#include "windows/activation.cuh"

static_assert(sizeof(T) == 2);

template <typename Plan>
struct StoredRows;  // stored_rows.cuh

struct Outputs {
  const T* __restrict__ x;
  const T* __restrict__ weights;
  const T* __restrict__ bias;
  const int n;  // rows
  T* __restrict__ y;

  template <typename Plan>
  using Stored = StoredRows<Plan>;

  // Sums of a row become outputs.
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&sums)[kCount], int /* largest */, int row, int column) const {
    const Vector<T, kCount> of_bias = load_vector<kCount>(bias + column);
    Vector<T, kCount> outputs;
#pragma unroll
    for (int i = 0; i < kCount; ++i) outputs.value[i] = activated<kActivation, T>(sums[i] + to_float(of_bias.value[i]));
    store_vector(y + (static_cast<size_t>(row) * kOutputs + column), outputs);
  }
};
