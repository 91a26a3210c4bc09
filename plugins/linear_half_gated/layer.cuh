// The layer that linear_half_gated is compiled for: y = act(x gate^T + gate_bias) * (x w^T + bias), in fp16 or bfloat16.
//
// x [n, I], y [n, O]. Packed weights (linear/packed.cuh) and biases have 2 O columns: 2 o is the gate of result o, and 2 o + 1 its value. So a lane that
// has two neighbouring sums has all of a result.
#pragma once

#include "windows/activation.cuh"

using T = TYPE_T;
constexpr int kInputs = AXIS_IN, kResults = AXIS_OUT, kOutputs = 2 * kResults;  // outputs: the columns, for what linear_half shares
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);

#include "linear_half/outputs.cuh"

// A result of the sums of its gate and of its value, with their biases. It is rounded once.
__device__ __forceinline__ T gated(float gate, float value) {
  if constexpr (kActivation == Activation::kGelu) {
    return from_float<T>(gelu_of_16_bits(gate) * value);
  } else {
    return from_float<T>(activate<kActivation>(gate) * value);
  }
}

template <typename Plan>
struct GatedRows;  // gated_rows.cuh

struct Layer : Outputs {
  template <typename Plan>
  using Stored = GatedRows<Plan>;

  __device__ __forceinline__ const T* row(int row) const { return x + static_cast<size_t>(row) * kInputs; }

  // Sums of neighbouring columns of a row become half as many results.
  template <int kCount>
  __device__ __forceinline__ void finish(const float (&sums)[kCount], int /* largest */, int row, int column) const {
    const Vector<T, kCount> of_bias = load_vector<kCount>(bias + column);
    Vector<T, kCount / 2> results;
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      results.value[i / 2] = gated(sums[i] + to_float(of_bias.value[i]), sums[i + 1] + to_float(of_bias.value[i + 1]));
    }
    store_vector(y + (static_cast<size_t>(row) * kResults + column / 2), results);
  }
};
