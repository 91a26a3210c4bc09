// plugins/mma_int8.cuh for a CPU: products as the PTX manual lays out their operands.
#pragma once

#include "mma.cuh"

namespace int8 {

constexpr int kMagicBits = 0x4b400000;
constexpr float kMagic = 12582912.0f;

inline int4 first_sums() { return {kMagicBits, kMagicBits, kMagicBits, kMagicBits}; }

inline int product_bytes(unsigned a, unsigned b) { return __dp4a(static_cast<int>(a), static_cast<int>(b), 0); }

inline void multiply(int (&d)[4], const int4& c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  d[0] = c.x, d[1] = c.y, d[2] = c.z, d[3] = c.w;
  add_products<2>(d, {a0, a1, a2, a3}, {b0, b1}, product_bytes);
}
inline void multiply_add(int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  add_products<2>(d, {a0, a1, a2, a3}, {b0, b1}, product_bytes);
}
inline void multiply_add(int (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  add_products<1>(d, {a0, a1}, {b0}, product_bytes);
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
