// Outputs of a dense layer of floats by plain multiply-adds.
//
// x [n, I], scales [O], bias [O], y [n, O] in floats; weights (packed.cuh) in fp16: w, divided by its output's scale, is hi + lo / kLow (split.cuh).
// A row of x is a pointer, or whatever has the input i as row[i].
#pragma once

#include "linear/packed.cuh"
#include "split_floats/split.cuh"
#include "windows/activation.cuh"

static_assert(sizeof(T) == 4);

// kCount neighbouring outputs of a row, without bias.
template <int kCount, typename Row>
__device__ __forceinline__ void plain_sums(float (&sums)[kCount], const Row row, const __half* __restrict__ weights,
                                           const T* __restrict__ scales, int first) {
  const __half* of_outputs = weights + (first / kEight * kOfEight + first % kEight * kEight);
  float scale[kCount];
#pragma unroll
  for (int f = 0; f < kCount; ++f) scale[f] = scales[first + f];
#pragma unroll 1
  for (int input = 0; input < kInputs; input += kEight) {
    const __half* from = of_outputs + (input / kChunk * 2 * kOfAll + input % kChunk * kEight);
    float of_x[kEight];
#pragma unroll
    for (int i = 0; i < kEight; ++i) of_x[i] = row[input + i];
#pragma unroll
    for (int f = 0; f < kCount; ++f) {
      const Vector<__half, kEight> hi = load_vector<kEight>(from + f * kEight), lo = load_vector<kEight>(from + kOfAll + f * kEight);
#pragma unroll
      for (int i = 0; i < kEight; ++i) sums[f] = fmaf(of_x[i], joined(hi.value[i], lo.value[i]) * scale[f], sums[f]);
    }
  }
}

// One output by plain multiply-adds.
template <typename Row>
__device__ __noinline__ T plain_output(const Row row, const __half* __restrict__ weights, const T* __restrict__ scales,
                                       const T* __restrict__ bias, int feature) {
  float sums[1] = {};
  plain_sums(sums, row, weights, scales, feature);
  return activate<kActivation>(sums[0] + bias[feature]);
}
