// plugins/wgmma.cuh for a CPU: products of operands in shared memory, as the PTX manual lays them out. A lane computes its own sums.
#pragma once

#include "bulk.cuh"
#include "common.cuh"

void wait_for_threads(int barrier, int count);
template <int kThreads>
void wait_for_group(int barrier = 1) { wait_for_threads(barrier, kThreads); }
inline void wgmma_begin() {}
inline void wgmma_commit() {}
template <int kCount>
void keep_registers() {}
template <int kCount>
void take_registers() {}
template <int kPending>
void wgmma_wait() { __syncwarp(); }
// All lanes of a warp have their sums before one of them gives the operands back.
template <int kCount>
void wgmma_finish(float (&)[kCount]) { __syncwarp(); }
template <int kCount>
void wgmma_finish_groups(float (&)[kCount]) { __syncwarp(); }
template <int kCount>
void wgmma_finish_with(float (&)[kCount]) {}

template <unsigned kNextK, unsigned kNextColumns, int kSwizzled = 0>
unsigned long long wgmma_operand(unsigned address) {
  if (address % 16 != 0) std::exit(2);
  return (address & 0x3ffff) / 16 | static_cast<unsigned long long>(kNextK / 16) << 16 |
         static_cast<unsigned long long>(kNextColumns / 16) << 32 | (kSwizzled == 32 ? 3ull << 62 : 0);
}

template <typename Operand>
float wgmma_value(unsigned bits) {
  static const float* const values = [] {
    float* const all = new float[65536];
    for (unsigned each = 0; each < 65536; ++each) {
      all[each] = std::is_same_v<Operand, __nv_bfloat16> ? from_bfloat16(each) : from_half(each);
    }
    return all;
  }();
  return values[bits & 0xffff];
}

// Element `k` of row or column `index` of an operand; kTransposed: in its 8x8 blocks a k's elements are together.
template <typename Operand, bool kTransposed = false>
float wgmma_element(unsigned long long operand, int index, int k) {
  const auto field = [&](int shift) { return static_cast<unsigned>(operand >> shift & 0x3fff) * 16; };
  unsigned place = field(0) + index / 8 * field(32);
  if (operand >> 62 == 3) place = swizzled<32>(place + index % 8 * 32 + k * 2);
  else place += k / 8 * field(16) + (kTransposed ? k : index) % 8 * 16 + (kTransposed ? index : k) % 8 * 2;
  uint16_t bits;
  std::memcpy(&bits, shared + place, 2);
  return wgmma_value<Operand>(bits);
}

// Adds to this lane's sums, of two rows of a; `kCount` sums are of twice as many columns.
template <typename Operand, bool kTransposed = false, int kCount>
void wgmma_sums(float (&d)[kCount], const float (&rows)[2][16], unsigned long long b, bool add) {
  const int t = threadIdx.x % 4;
  for (int j = 0; j < kCount / 4; ++j) {
    for (int e = 0; e < 2; ++e) {
      float column[16];
      for (int k = 0; k < 16; ++k) column[k] = wgmma_element<Operand, kTransposed>(b, 8 * j + 2 * t + e, k);
      for (int i = 0; i < 2; ++i) {
        float sum = 0.0f;
        for (int k = 0; k < 16; ++k) sum += rows[i][k] * column[k];
        float& to = d[4 * j + 2 * i + e];
        to = add ? to + sum : sum;
      }
    }
  }
}

template <typename Operand = __half, int kCount>
void wgmma_multiply(float (&d)[kCount], unsigned long long a, unsigned long long b, bool add) {
  const int first_row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  float rows[2][16];
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 16; ++k) rows[i][k] = wgmma_element<Operand>(a, first_row + 8 * i, k);
  }
  wgmma_sums<Operand>(d, rows, b, add);
}

// With a in registers: the four lanes of a row have its elements.
template <bool kAdd, typename Operand = __half, bool kTransposed = false, int kCount>
void wgmma_multiply(float (&d)[kCount], const unsigned* a, unsigned long long b) {
  const auto lanes = everyone(std::array<unsigned, 4>{a[0], a[1], a[2], a[3]});
  const int first_lane = threadIdx.x % 32 / 4 * 4;
  float rows[2][16];
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 16; ++k) {
      const unsigned word = lanes[first_lane + k % 8 / 2][k / 8 * 2 + i];
      rows[i][k] = wgmma_value<Operand>(k % 2 ? word >> 16 : word);
    }
  }
  wgmma_sums<Operand, kTransposed>(d, rows, b, kAdd);
}
