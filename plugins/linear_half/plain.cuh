// Sums of a dense layer in fp16 or bfloat16 by plain multiply-adds.
#pragma once

#include "linear/packed.cuh"

// Of eight neighbouring outputs, without bias. `eight(i)` has the inputs i, ... i + 7 of a row.
template <typename Eight>
__device__ __forceinline__ void plain_sums(float (&sums)[kEight], const T* weights, int first, Eight eight) {
#pragma unroll 1
  for (int input = 0; input < kInputs; input += kEight) {
    const T* from = weights + (input / kChunk * kOfAll + first / kEight * kOfEight + input % kChunk * kEight);
    const Vector<T, kEight> some = eight(input);
#pragma unroll
    for (int f = 0; f < kEight; ++f) {
      const Vector<T, kEight> w = load_vector<kEight>(from + f * kEight);
#pragma unroll
      for (int i = 0; i < kEight; ++i) sums[f] = fmaf(to_float(some.value[i]), to_float(w.value[i]), sums[f]);
    }
  }
}
