// concat_shuffle: y = the channels of a and b in turns.
//
// a, b [n, C, H, W], y [n, 2 C, H, W]. Mapping and bytes: planes.cuh. What was measured: docs/kernels/concat_shuffle.md.
#include "concat_shuffle/planes.cuh"

ASSERT_LAUNCH(concat_shuffle_copy, kThreads, 0);

extern "C" __global__ void __launch_bounds__(kThreads)
    concat_shuffle_copy(const T* __restrict__ a, const T* __restrict__ b, int n, T* __restrict__ y) {
  wait_for_previous_kernel();
  copy_planes(a, b, n, [&](int number, const Vector<T, kVector>& vector) { store_vector(y + number * kVector, vector); });
}
