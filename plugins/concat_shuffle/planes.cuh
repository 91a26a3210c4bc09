// The planes of two tensors in turns: what concat_shuffle and concat_shuffle_split share.
//
// a, b [n, C, H, W]; plane 2 i of an image of the result is plane i of a, plane 2 i + 1 is plane i of b. Mapping: a thread copies up to four
// vectors of up to 16 bytes, which lie a block apart in the result. Bytes: each tensor once.
#pragma once

#include "common.cuh"

using T = TYPE_T;
constexpr int kChannels = AXIS_C, kPlane = AXIS_H * AXIS_W, kThreads = 256, kAtOnce = 4;
constexpr int kMost = Pack16<T>::kCount;
constexpr int kVector = kPlane % kMost == 0 ? kMost : divisor_of(kPlane);  // elements
constexpr int kVectors = kPlane / kVector;                                 // of a plane

// A vector of the result, by its number: the vector of a or b that it is.
struct Source {
  int image, plane, at;
  bool of_b;

  __device__ __forceinline__ explicit Source(int number) : at(number % kVectors * kVector) {
    const int all = number / kVectors, of_image = all % (2 * kChannels);
    image = all / (2 * kChannels);
    plane = of_image / 2;
    of_b = of_image % 2;
  }
};

// Calls put(number of a vector, the vector) for each vector of this thread.
template <typename Put>
__device__ __forceinline__ void copy_planes(const T* __restrict__ a, const T* __restrict__ b, int n, const Put& put) {
  const int count = n * (2 * kChannels * kVectors), first = blockIdx.x * (kThreads * kAtOnce) + threadIdx.x;
  Vector<T, kVector> vectors[kAtOnce];
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    const int number = first + i * kThreads;
    if (number >= count) continue;
    const Source source(number);
    vectors[i] = load_vector<kVector>((source.of_b ? b : a) + (source.image * kChannels + source.plane) * kPlane + source.at);
  }
#pragma unroll
  for (int i = 0; i < kAtOnce; ++i) {
    if (first + i * kThreads < count) put(first + i * kThreads, vectors[i]);
  }
}
