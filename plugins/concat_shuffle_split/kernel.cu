// concat_shuffle_split: first and second = the halves of the channels of a and b in turns.
//
// a, b, first, second [n, C, H, W]. Mapping and bytes: concat_shuffle/planes.cuh. What was measured: docs/kernels/concat_shuffle.md.
#include "concat_shuffle/planes.cuh"

ASSERT_LAUNCH(concat_shuffle_split_copy, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    concat_shuffle_split_copy(const T* __restrict__ a, const T* __restrict__ b, int n, T* __restrict__ first, T* __restrict__ second) {
  wait_for_previous_kernel();
  constexpr int kHalf = kChannels * kVectors;  // vectors of an image
  copy_planes(a, b, n, [&](int number, const Vector<T, kVector>& vector) {
    const int image = number / (2 * kHalf), at = number % (2 * kHalf);
    store_vector((at < kHalf ? first : second) + (image * kHalf + at % kHalf) * kVector, vector);
  });
}
