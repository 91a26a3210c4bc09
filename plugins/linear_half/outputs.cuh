// The arguments of a dense layer in fp16 or bfloat16, but for where a row of x lies, and how sums become outputs. kAdds: other [n, O] is added before
// the activation. kGates: to the sums, times what the columns of an image have.
//
// x, weights (w, packed: linear/packed.cuh), bias [O], y [n, O].
#pragma once

#include "linear/packed.cuh"
#include "windows/activation.cuh"

static_assert(sizeof(T) == 2);

// What is added, as a parameter, as an argument, and as the last member of Outputs; a kernel that adds has defined ADDS_OTHER, and one with gates
// GATES_SUMS.
#define TOKENS_PARAMETER
#ifdef GATES_SUMS
constexpr bool kAdds = true, kGates = true;
constexpr int kGateParts = AXIS_GATES, kGatePart = ATTR_GATE_PART;
#define OTHER_PARAMETER , const T *__restrict__ other, const T *__restrict__ gate
#undef TOKENS_PARAMETER
#define TOKENS_PARAMETER , int tokens
#define OTHER_ARGUMENT , other, gate, tokens
#define OTHER_MEMBER          \
  const T* __restrict__ other; \
  const T* __restrict__ gate; /* [images, parts, O] */ \
  const int tokens; /* rows of an image */
#elif defined(ADDS_OTHER)
constexpr bool kAdds = true, kGates = false;
#define OTHER_PARAMETER , const T* __restrict__ other
#define OTHER_ARGUMENT , other
#define OTHER_MEMBER const T* __restrict__ other;
#else
constexpr bool kAdds = false, kGates = false;
#define OTHER_PARAMETER
#define OTHER_ARGUMENT
#define OTHER_MEMBER static constexpr const T* other = nullptr;
#endif

// Makes an output of a sum with its bias; the gate and the other number count where the layer has them.
__device__ __forceinline__ T output_of(float sum, T gate, T other) {
  return activated<kActivation, T>(kGates ? fmaf(sum, to_float(gate), to_float(other)) : kAdds ? sum + to_float(other) : sum);
}

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

  template <int kCount>
  __device__ __forceinline__ Vector<T, kCount> gates(int row, int column) const {
#ifdef GATES_SUMS  // no other kernel has these members
    return load_vector<kCount>(gate + (static_cast<size_t>(row / tokens * kGateParts + kGatePart) * kOutputs + column));
#else
    return {};
#endif
  }

  // Sums of a row become outputs.
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&sums)[kCount], int /* largest */, int row, int column) const {
    const Vector<T, kCount> of_bias = load_vector<kCount>(bias + column);
    Vector<T, kCount> outputs, others{};
    if constexpr (kAdds) others = load_vector<kCount>(other + (static_cast<size_t>(row) * kOutputs + column));
    const Vector<T, kCount> of_image = gates<kCount>(row, column);
#pragma unroll
    for (int i = 0; i < kCount; ++i) outputs.value[i] = output_of(sums[i] + to_float(of_bias.value[i]), of_image.value[i], others.value[i]);
    store_vector(y + (static_cast<size_t>(row) * kOutputs + column), outputs);
  }
};
