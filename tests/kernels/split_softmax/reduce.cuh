// What the launches of split_softmax share: the chunk of a row that a block takes, its partial result, sums over a block.
#pragma once

#include "common.cuh"

using T = TYPE_T;
constexpr int kThreads = 128, kChunk = 1024;

struct Partial {
  float largest, sum;  // of exp(x - largest)
};

__device__ __forceinline__ float minus_infinity() { return -__int_as_float(0x7f800000); }

template <typename Operation>
__device__ __forceinline__ float over_block(float value, Operation operation) {
  __shared__ float values[kThreads];
  values[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) values[threadIdx.x] = operation(values[threadIdx.x], values[threadIdx.x + half]);
  }
  __syncthreads();
  const float result = values[0];
  __syncthreads();
  return result;
}

// All threads get the result for x[0 .. count).
__device__ __forceinline__ Partial partial_of(const T* x, int count) {
  float largest = minus_infinity(), sum = 0.0f;
  for (int i = threadIdx.x; i < count; i += kThreads) largest = max_nan(largest, to_float(x[i]));
  largest = over_block(largest, [](float a, float b) { return max_nan(a, b); });
  for (int i = threadIdx.x; i < count; i += kThreads) sum += expf(to_float(x[i]) - largest);
  sum = over_block(sum, [](float a, float b) { return a + b; });
  return {largest, sum};
}

__device__ __forceinline__ void write(const T* x, int count, Partial whole, T* y) {
  for (int i = threadIdx.x; i < count; i += kThreads) {
    y[i] = from_float<T>(expf(to_float(x[i]) - whole.largest) / whole.sum);
  }
}
