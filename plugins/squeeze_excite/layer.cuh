// The layer that squeeze_excite is compiled for, and what its variants share.
//
// x [n, C, H, W], w1 [S, C, 1, 1], b1 [S], w2 [C, S, 1, 1], b2 [C], y [n, C, H, W].
#pragma once

#include "windows/activation.cuh"

using T = TYPE_T;
constexpr int kChannels = AXIS_C, kHidden = AXIS_S, kPlane = AXIS_H * AXIS_W, kWarp = 32;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
enum class Gate { kSigmoid, kHardsigmoid };  // in the order of GATES in pattern.py
constexpr Gate kGate = static_cast<Gate>(ATTR_GATE);

constexpr int kThreads = 512, kWarps = kThreads / kWarp;
constexpr int kLanes = 8, kGroups = kThreads / kLanes;  // of a thread block, for a row of weights each

constexpr int kVector = divisor_of(kPlane);  // elements; planes are whole vectors
constexpr int kVectors = kPlane / kVector;

// Of a NaN it is NaN.
__device__ __forceinline__ float gate_of(float x) {
  if constexpr (kGate == Gate::kSigmoid) {
    return sigmoid(x);
  } else {
    return x != x ? x : fminf(fmaxf(fmaf(x, 1.0f / 6.0f, 0.5f), 0.0f), 1.0f);
  }
}

// Adds every kStep-th vector of a plane, from vector `first` on.
template <int kStep>
__device__ __forceinline__ float sum_of_vectors(const T* plane, int first) {
  float sum = 0.0f;
#pragma unroll 8
  for (int i = first; i < kVectors; i += kStep) {
    const auto vector = load_vector<kVector>(plane + i * kVector);
    float of_vector = to_float(vector.value[0]);
#pragma unroll
    for (int k = 1; k < kVector; ++k) of_vector += to_float(vector.value[k]);
    sum += of_vector;
  }
  return sum;
}

// The sum over kCount neighbouring lanes, in each of them.
template <int kCount>
__device__ __forceinline__ float sum_over_lanes(float sum) {
  exchange_sums<1, kCount / 2>(&sum, threadIdx.x % kWarp);
  return sum;
}
