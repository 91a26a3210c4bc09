// plugins/dense/instructions.cuh for a CPU: operands as the PTX manual lays them out; copies arrive only when they are waited for.
#pragma once

#include "common.cuh"

#include <deque>

namespace dense {

template <typename T>
struct Sum { using Type = float; };
template <>
struct Sum<signed char> { using Type = int; };

struct Copy { unsigned to; const void* from; int bytes, count; };
struct Copies { std::vector<Copy> open; std::deque<std::vector<Copy>> groups; };
inline Copies& my_copies() {
  static std::vector<Copies> all(1024);
  return all[threadIdx.x];
}

template <int kBytes>
void copy_or_clear(unsigned to, const void* from, bool exists) {
  if (to % kBytes != 0 || reinterpret_cast<size_t>(from) % kBytes != 0) std::exit(2);
  my_copies().open.push_back({to, from, exists ? kBytes : 0, kBytes});
}
inline void end_group() {
  my_copies().groups.push_back(std::move(my_copies().open));
  my_copies().open.clear();
}
template <int kGroups>
void wait_for_groups() {
  auto& groups = my_copies().groups;
  for (; groups.size() > kGroups; groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      std::memset(at_address(copy.to), 0, copy.count);
      std::memcpy(at_address(copy.to), copy.from, copy.bytes);
    }
  }
}

inline void load_matrices(unsigned (&word)[4], unsigned address) {
  const auto rows = everyone(address);
  for (int i = 0; i < 4; ++i) {
    const unsigned row = rows[i * 8 + threadIdx.x % 32 / 4];
    if (row % 16 != 0) std::exit(2);
    std::memcpy(&word[i], at_address(row + threadIdx.x % 4 * 4), 4);
  }
}

// The sum of the products of the numbers in two words.
inline float product(float sum, unsigned a, unsigned b) {
  return sum + __uint_as_float(a & 0xffffe000u) * __uint_as_float(b & 0xffffe000u);
}
inline int product(int sum, unsigned a, unsigned b) { return __dp4a(static_cast<int>(a), static_cast<int>(b), sum); }

template <typename T>
void multiply(typename Sum<T>::Type (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  struct Operands { unsigned a[4], b[2]; };
  const auto lanes = everyone(Operands{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < 4; ++i) {
    for (int half = 0; half < 2; ++half) {
      for (int word = 0; word < 4; ++word) {
        d[i] = product(d[i], lanes[4 * g + word].a[2 * half + i / 2], lanes[4 * (2 * t + i % 2) + word].b[half]);
      }
    }
  }
}

}  // namespace dense
