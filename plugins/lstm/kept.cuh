// A layer of an LSTM over a whole sequence: a block has one direction and kRows sequences, and runs all steps.
//
// x [steps, n, I], w, r, b, h0, c0, y, y_h, y_c: cell.cuh.
//
// Mapping: a thread computes a row of the gates for each sequence, then some states from the four gates of each; two barriers a step.
// The states, the features of two steps and the gates are in shared memory, as floats. Weights: docs/kernels/lstm.md.
#pragma once

#include "lstm/cell.cuh"

// The memory of a block; `Weights` says how many rows of weights there are.
template <int kRows, int kWeights>
struct Memory {
  static constexpr int kFloats = kRows * (kHidden + 2 * kInputs + kGates);
  static constexpr int kBytes = 4 * kFloats + kWeights * kGates * static_cast<int>(sizeof(T));
  float* states;    // [kRows][kHidden]
  float* features;  // [2][kRows][kInputs]
  float* gates;     // [kRows][kGates]
  T* weights;       // [kWeights][kGates]: neighbouring threads read neighbouring elements
  __device__ __forceinline__ explicit Memory(unsigned char* shared)
      : states(reinterpret_cast<float*>(shared)),
        features(states + kRows * kHidden),
        gates(features + 2 * kRows * kInputs),
        weights(reinterpret_cast<T*>(gates + kRows * kGates)) {}
};

// kKept weights of a thread's gate stay in its registers and the others in shared memory.
template <int kThreads, int kRows, int kKept>
__device__ __forceinline__ void lstm(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ r,
                                     const T* __restrict__ b, const T* __restrict__ h0, const T* __restrict__ c0, int steps, int n,
                                     T* __restrict__ y, T* __restrict__ y_h, T* __restrict__ y_c, unsigned char* shared) {
  constexpr int kWeights = kInputs + kHidden - kKept;
  constexpr int kAtOnce = kRows > 1 ? 4 : 8;  // more would not leave enough registers for the kept weights
  static_assert(kGates <= kThreads, "a thread has one gate");
  const Memory<kRows, kWeights> memory(shared);
  const int thread = threadIdx.x, way = blockIdx.y, first = blockIdx.x * kRows;
  const bool backwards = runs_backwards(way);
  w += static_cast<size_t>(way) * kGates * kInputs;
  r += static_cast<size_t>(way) * kGates * kHidden;
  b += way * 2 * kGates;

  float kept[kKept];
  if (thread < kGates) {
#pragma unroll
    for (int k = 0; k < kKept; ++k) kept[k] = to_float(r[thread * kHidden + k]);
    for (int k = 0; k < kInputs; ++k) memory.weights[k * kGates + thread] = w[thread * kInputs + k];
    for (int k = kKept; k < kHidden; ++k) memory.weights[(kInputs + k - kKept) * kGates + thread] = r[thread * kHidden + k];
  }

  // The cells of the states that this thread computes.
  constexpr int kStates = kRows * kHidden, kOwn = ceil_div(kStates, kThreads);
  float cells[kOwn];
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const int state = thread + own * kThreads, row = first + state / kHidden;
    cells[own] = 0.0f;
    if (state >= kStates) continue;
    const size_t at = (static_cast<size_t>(way) * n + row) * kHidden + state % kHidden;
    if (row < n) cells[own] = to_float(c0[at]);
    memory.states[state] = row < n ? to_float(h0[at]) : 0.0f;
  }

  // The features that this thread reads of each step.
  constexpr int kFeatures = kRows * kInputs, kRead = ceil_div(kFeatures, kThreads);
  T read[kRead];  // not converted: that would wait for it
  const auto read_step = [&](int step) {
#pragma unroll
    for (int i = 0; i < kRead; ++i) {
      const int feature = thread + i * kThreads, row = first + feature / kInputs;
      read[i] = from_float<T>(0.0f);
      if (feature < kFeatures && row < n) {
        read[i] = x[(static_cast<size_t>(step) * n + row) * kInputs + feature % kInputs];
      }
    }
  };
  const auto store_step = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < kRead; ++i) {
      const int feature = thread + i * kThreads;
      if (feature < kFeatures) memory.features[buffer * kFeatures + feature] = to_float(read[i]);
    }
  };
  if (steps > 0) {
    read_step(backwards ? steps - 1 : 0);
    store_step(0);
  }
  __syncthreads();

  for (int done = 0; done < steps; ++done) {
    const int step = backwards ? steps - 1 - done : done;
    if (done + 1 < steps) read_step(backwards ? step - 1 : step + 1);  // arrives while the gates are computed
    const float* features = memory.features + done % 2 * kFeatures;
    if (const int gate = thread; gate < kGates) {
      float sums[kRows];
      const float bias = to_float(b[gate]) + to_float(b[kGates + gate]);
#pragma unroll
      for (int row = 0; row < kRows; ++row) sums[row] = bias;
#pragma unroll kAtOnce
      for (int k = 0; k < kInputs; ++k) {
        const float weight = to_float(memory.weights[k * kGates + gate]);
#pragma unroll
        for (int row = 0; row < kRows; ++row) sums[row] = fmaf(weight, features[row * kInputs + k], sums[row]);
      }
#pragma unroll
      for (int k = 0; k < kKept; ++k) {
#pragma unroll
        for (int row = 0; row < kRows; ++row) sums[row] = fmaf(kept[k], memory.states[row * kHidden + k], sums[row]);
      }
#pragma unroll kAtOnce
      for (int k = kKept; k < kHidden; ++k) {
        const float weight = to_float(memory.weights[(kInputs + k - kKept) * kGates + gate]);
#pragma unroll
        for (int row = 0; row < kRows; ++row) sums[row] = fmaf(weight, memory.states[row * kHidden + k], sums[row]);
      }
#pragma unroll
      for (int row = 0; row < kRows; ++row) memory.gates[row * kGates + gate] = sums[row];
    }
    __syncthreads();
#pragma unroll
    for (int own = 0; own < kOwn; ++own) {
      const int state = thread + own * kThreads, row = first + state / kHidden, unit = state % kHidden;
      if (state >= kStates) continue;
      const float h = next_state(memory.gates + state / kHidden * kGates + unit, cells[own]);
      memory.states[state] = h;
      if (row < n) y[((static_cast<size_t>(step) * kDirections + way) * n + row) * kHidden + unit] = from_float<T>(h);
    }
    store_step((done + 1) % 2);
    __syncthreads();
  }

#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const int state = thread + own * kThreads, row = first + state / kHidden;
    if (state >= kStates || row >= n) continue;
    const size_t at = (static_cast<size_t>(way) * n + row) * kHidden + state % kHidden;
    y_h[at] = from_float<T>(memory.states[state]);
    y_c[at] = from_float<T>(cells[own]);
  }
}
