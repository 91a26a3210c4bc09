// One block of a kernel after the other on the CPU: every thread of CUDA is a thread of the host. Has what kernels on tensor cores
// use of common.cuh and mma.cuh.
#pragma once

#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __noinline__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define ASSERT_LAUNCH(...) static_assert(true)

using __half = _Float16;
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) int2 {
  int x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return std::exp(x); }

// ---- common.cuh ----
inline void wait_for_previous_kernel() {}
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int smaller(int a, int b) { return a < b ? a : b; }
inline float to_float(float value) { return value; }
inline float to_float(__half value) { return value; }
template <typename T>
inline T from_float(float value) {
  return static_cast<T>(value);
}
inline float relu_nan(float x) { return x != x ? x : x > 0 ? x : 0; }

template <typename T, int kCount_>
struct alignas(kCount_ * sizeof(T)) Vector {
  static constexpr int kCount = kCount_;
  T value[kCount];
};
template <int kCount, typename T>
inline Vector<T, kCount> load_vector(const T* address) {
  return *reinterpret_cast<const Vector<T, kCount>*>(address);
}
template <typename T, int kCount>
inline void store_vector(T* address, const Vector<T, kCount>& vector) {
  if (reinterpret_cast<std::size_t>(address) % sizeof(vector) != 0) std::abort();  // as a GPU would
  std::memcpy(address, &vector, sizeof(vector));
}

// ---- a block ----
struct Place {
  int x, y;
};
struct Operands {
  unsigned a[4], b[2];
};
constexpr int kMostWarps = 32;
inline thread_local Place threadIdx, blockIdx;
inline Place gridDim;
inline unsigned char* dynamic_shared;
inline std::unique_ptr<std::barrier<>> all, of_warp[kMostWarps];
inline Operands operands[kMostWarps][32];

inline void __syncthreads() { all->arrive_and_wait(); }

// The product of one word of A and one of B.
inline double product_tf32(unsigned a, unsigned b) {
  constexpr unsigned kSeen = 0xffffe000u;  // the tensor cores ignore the other bits
  return static_cast<double>(__uint_as_float(a & kSeen)) * __uint_as_float(b & kSeen);
}
inline double product_half(unsigned a, unsigned b) {
  __half of_a[2], of_b[2];
  std::memcpy(of_a, &a, sizeof(a));
  std::memcpy(of_b, &b, sizeof(b));
  return static_cast<double>(of_a[0]) * of_b[0] + static_cast<double>(of_a[1]) * of_b[1];
}

// d += a b, where A has 16 rows of 8 words and B 8 columns of them; mma.cuh says which lane has what.
template <double (*product)(unsigned, unsigned)>
inline void multiply(float (&d)[4], const Operands& mine) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  operands[warp][lane] = mine;
  of_warp[warp]->arrive_and_wait();
  for (int e = 0; e < 4; ++e) {
    const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    double sum = d[e];
    for (int word = 0; word < 8; ++word) {
      const unsigned a = operands[warp][row % 8 * 4 + word % 4].a[row / 8 + word / 4 * 2];
      sum += product(a, operands[warp][column * 4 + word % 4].b[word / 4]);
    }
    d[e] = static_cast<float>(sum);
  }
  of_warp[warp]->arrive_and_wait();
}
inline void mma_16x8x8_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  multiply<product_tf32>(d, {{a[0], a[1], a[2], a[3]}, {b0, b1}});
}
template <typename T>
inline void mma_16x8x16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  multiply<product_half>(d, {{a0, a1, a2, a3}, {b0, b1}});
}

// Calls `thread` for every thread of a grid, with `shared` bytes of dynamic shared memory. Returns whether more were written.
template <typename Thread>
bool launch(Place grid, int threads, int shared, Thread thread) {
  constexpr unsigned char kGuard = 0x5a, kGuards = 64;
  std::vector<unsigned char> memory(shared + kGuards + 16, 0xff);
  dynamic_shared = memory.data() + (16 - reinterpret_cast<std::size_t>(memory.data()) % 16);
  std::memset(dynamic_shared + shared, kGuard, kGuards);
  gridDim = grid;
  for (int block = 0; block < grid.x * grid.y; ++block) {
    all = std::make_unique<std::barrier<>>(threads);
    for (int warp = 0; warp < threads / 32; ++warp) of_warp[warp] = std::make_unique<std::barrier<>>(32);
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([=] {
        threadIdx = {i, 0}, blockIdx = {block % grid.x, block / grid.x};
        thread();
      });
    }
    for (std::thread& each : running) each.join();
  }
  for (int i = 0; i < kGuards; ++i) {
    if (dynamic_shared[shared + i] != kGuard) return true;
  }
  return false;
}
