// The largest of some values, to which the exponentials of a softmax are relative.
#pragma once

#include "common.cuh"

namespace softmax {

// The largest of no values, -infinity: its exponential is 0.
__device__ __forceinline__ float nothing() { return __int_as_float(0xff800000); }

// What to subtract from the values of a part: where all are -infinity, their exponentials are 0 and not NaN.
__device__ __forceinline__ float reference_of(float largest) { return largest == nothing() ? 0.0f : largest; }

}  // namespace softmax
