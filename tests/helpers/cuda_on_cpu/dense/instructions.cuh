// plugins/dense/instructions.cuh for a CPU: operands as the PTX manual lays them out.
#pragma once

#include "common.cuh"

namespace dense {

template <typename T>
struct Sum { using Type = float; };
template <>
struct Sum<signed char> { using Type = int; };

// The sum of the products of the numbers in two words.
template <typename T>
struct Product;
template <>
struct Product<float> {
  static float added(float sum, unsigned a, unsigned b) {
    return sum + __uint_as_float(a & 0xffffe000u) * __uint_as_float(b & 0xffffe000u);
  }
};
template <>
struct Product<__half> {
  static float added(float sum, unsigned a, unsigned b) {
    for (int shift : {0, 16}) sum += from_half(a >> shift & 0xffff) * from_half(b >> shift & 0xffff);
    return sum;
  }
};
template <>
struct Product<__nv_bfloat16> {
  static float added(float sum, unsigned a, unsigned b) {
    for (int shift : {0, 16}) sum += from_bfloat16(a >> shift & 0xffff) * from_bfloat16(b >> shift & 0xffff);
    return sum;
  }
};
template <>
struct Product<signed char> {
  static int added(int sum, unsigned a, unsigned b) { return __dp4a(static_cast<int>(a), static_cast<int>(b), sum); }
};

template <typename T>
void multiply(typename Sum<T>::Type (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  struct Operands { unsigned a[4], b[2]; };
  const auto lanes = everyone(Operands{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < 4; ++i) {
    for (int half = 0; half < 2; ++half) {
      for (int word = 0; word < 4; ++word) {
        d[i] = Product<T>::added(d[i], lanes[4 * g + word].a[2 * half + i / 2], lanes[4 * (2 * t + i % 2) + word].b[half]);
      }
    }
  }
}

}  // namespace dense
