// plugins/mma_int8.cuh for a CPU: products as the PTX manual lays out their operands.
#pragma once

#include "common.cuh"

namespace int8 {

constexpr int kMagicBits = 0x4b400000;
constexpr float kMagic = 12582912.0f;

inline int4 first_sums() { return {kMagicBits, kMagicBits, kMagicBits, kMagicBits}; }

inline int byte_of(unsigned word, int i) { return static_cast<signed char>(word >> 8 * i & 255); }

// Rows of A: lane 4 g + t has register 0 of row g and register 1 of row g + 8, of the first 16 of k; then of the next 16.
template <int kHalves>
void product(int (&d)[4], const int (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  struct Operands { unsigned a[4], b[2]; };
  const auto lanes = everyone(Operands{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < 4; ++i) {
    const int column = 2 * t + i % 2;
    int sum = c[i];
    for (int half = 0; half < kHalves; ++half) {
      for (int k = 0; k < 16; ++k) {
        sum += byte_of(lanes[4 * g + k / 4].a[2 * half + i / 2], k % 4) * byte_of(lanes[4 * column + k / 4].b[half], k % 4);
      }
    }
    d[i] = sum;
  }
}

inline void multiply(int (&d)[4], const int4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  product<2>(d, {c.x, c.y, c.z, c.w}, {a0, a1, a2, a3}, {b0, b1});
}
inline void multiply_add(int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  product<2>(d, {d[0], d[1], d[2], d[3]}, {a0, a1, a2, a3}, {b0, b1});
}
inline void multiply_add(int (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  product<1>(d, {d[0], d[1], d[2], d[3]}, {a0, a1, 0, 0}, {b0, 0});
}

inline float saturated_fma(float a, float b, float c) {
  const float v = std::fmaf(a, b, c);
  return v > 0.0f ? std::fmin(v, 1.0f) : 0.0f;
}

inline unsigned load_word(unsigned address) {
  unsigned v;
  if (address % 4 != 0) std::exit(2);
  std::memcpy(&v, at_address(address), 4);
  return v;
}
inline void store_word(unsigned address, unsigned v) {
  if (address % 4 != 0) std::exit(2);
  std::memcpy(at_address(address), &v, 4);
}
inline void store_two(unsigned address, unsigned v) {
  if (address % 2 != 0) std::exit(2);
  std::memcpy(at_address(address), &v, 2);
}
inline void store_byte(unsigned address, unsigned v) { std::memcpy(at_address(address), &v, 1); }

}  // namespace int8
