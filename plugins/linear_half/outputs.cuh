// The arguments of a dense layer in fp16 or bfloat16, but for where a row of x lies, and how sums become outputs. kAdds: other [n, O] is added before
// the activation.
//
// x, weights (w, packed: linear/packed.cuh), bias [O], y [n, O].
#pragma once

#include "linear/packed.cuh"
#include "windows/activation.cuh"

static_assert(sizeof(T) == 2);

// What is added, as a parameter, as an argument, and as the last member of Outputs; a kernel that adds has defined ADDS_OTHER.
#ifdef ADDS_OTHER
constexpr bool kAdds = true;
#define OTHER_PARAMETER , const T* __restrict__ other
#define OTHER_ARGUMENT , other
#define OTHER_MEMBER const T* __restrict__ other;
#else
constexpr bool kAdds = false;
#define OTHER_PARAMETER
#define OTHER_ARGUMENT
#define OTHER_MEMBER static constexpr const T* other = nullptr;
#endif

template <typename Plan>
struct StoredRows;  // stored_rows.cuh

struct Outputs {
  const T* __restrict__ x;
  const T* __restrict__ weights;
  const T* __restrict__ bias;
  const int n;  // rows
  T* __restrict__ y;
  OTHER_MEMBER

  static constexpr int kSequence = 0;  // a tile may have any rows (linear/tile.cuh)

  template <typename Plan>
  using Stored = StoredRows<Plan>;

  // Sums of a row become outputs.
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&sums)[kCount], int /* largest */, int row, int column) const {
    const Vector<T, kCount> of_bias = load_vector<kCount>(bias + column);
    Vector<T, kCount> outputs, others{};
    if constexpr (kAdds) others = load_vector<kCount>(other + (static_cast<size_t>(row) * kOutputs + column));
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float sum = sums[i] + to_float(of_bias.value[i]);
      outputs.value[i] = activated<kActivation, T>(kAdds ? sum + to_float(others.value[i]) : sum);
    }
    store_vector(y + (static_cast<size_t>(row) * kOutputs + column), outputs);
  }
};
