// plugins/mma.cuh for a CPU: products as the PTX manual lays out their operands.
#pragma once

#include "common.cuh"

// The products of the numbers in one register of A and in one of B.
inline double product_tf32(unsigned a, unsigned b) {
  constexpr unsigned kSeen = 0xffffe000u;  // the tensor cores ignore the other bits
  return static_cast<double>(__uint_as_float(a & kSeen)) * __uint_as_float(b & kSeen);
}
inline float from_bits(__half, unsigned bits) { return from_half(static_cast<uint16_t>(bits)); }
inline float from_bits(__nv_bfloat16, unsigned bits) { return from_bfloat16(static_cast<uint16_t>(bits)); }
template <typename T>
double product_16_bits(unsigned a, unsigned b) {
  double sum = 0.0;
  for (int shift = 0; shift < 32; shift += 16) sum += static_cast<double>(from_bits(T{}, a >> shift)) * from_bits(T{}, b >> shift);
  return sum;
}

// d += a b, where a row of A and a column of B have kRegisters registers of each of four lanes.
template <int kRegisters, typename Sum, typename Product>
void add_products(Sum (&d)[4], const unsigned (&a)[2 * kRegisters], const unsigned (&b)[kRegisters], Product product) {
  struct Operands { unsigned a[2 * kRegisters], b[kRegisters]; } mine;
  std::memcpy(mine.a, a, sizeof(a));
  std::memcpy(mine.b, b, sizeof(b));
  const auto lanes = everyone(mine);
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < 4; ++i) {
    const int column = 2 * t + i % 2;
    auto sum = product(0, 0) + d[i];  // of integers, or in double
    for (int k = 0; k < 4 * kRegisters; ++k) sum += product(lanes[4 * g + k % 4].a[k / 4 * 2 + i / 2], lanes[4 * column + k % 4].b[k / 4]);
    d[i] = static_cast<Sum>(sum);
  }
}

template <typename T>
void mma_16x8x8(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  add_products<1>(d, {a0, a1}, {b0}, product_16_bits<T>);
}
template <typename T>
void mma_16x8x16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  add_products<2>(d, {a0, a1, a2, a3}, {b0, b1}, product_16_bits<T>);
}
inline void mma_16x8x8_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  add_products<2>(d, a, {b0, b1}, product_tf32);
}

inline unsigned transpose_8x8(unsigned elements) {
  const auto lanes = everyone(elements);
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  unsigned result = 0;
  for (int i = 0; i < 2; ++i) result |= (lanes[4 * (2 * t + i) + g / 2] >> 16 * (g % 2) & 0xffffu) << 16 * i;
  return result;
}
