// Products of dense/staged.cuh, of sm_80 and newer: 16 rows and 8 columns of 32 bytes each, in any type.
//
// tests/helpers/cuda_on_cpu has the same functions for a CPU, so that the kernels run there.
#pragma once

#include "mma.cuh"
#include "mma_int8.cuh"

namespace dense {

template <typename T>
struct Sum {
  using Type = float;
};
template <>
struct Sum<signed char> {
  using Type = int;
};

// d += a b for 32 bytes of a row of each operand, in the lanes as mma.cuh and mma_int8.cuh have them; floats are cut to tf32.
template <typename T>
__device__ __forceinline__ void multiply(typename Sum<T>::Type (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if constexpr (sizeof(T) == 1) {
    int8::multiply_add(d, a[0], a[1], a[2], a[3], b[0], b[1]);
  } else if constexpr (sizeof(T) == 2) {
    mma_16x8x16<T>(d, a[0], a[1], a[2], a[3], b[0], b[1]);
  } else {
    mma_16x8x8_tf32(d, a, b[0], b[1]);
  }
}

}  // namespace dense
