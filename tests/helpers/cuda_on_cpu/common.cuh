// Runs a kernel's source on a CPU: every thread of a block is a fiber, and what a warp does together waits for all its lanes.
//
// Compiled by g++ with this folder before plugins/ on the include path. Lanes run as far as they can between two such instructions,
// in an order that changes, so that a missing barrier gives wrong results. What no kernel changes is in fibers.cpp.
#pragma once

// Few headers: each test compiles them.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#define __global__
#define __host__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __CUDA_ARCH__ 900
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ thread_local  // one block at a time
#define ASSERT_LAUNCH(...)
#define ASSERT_LAUNCH_WHERE(...)
constexpr bool is_launched(const char*) { return true; }

using std::max;
using std::min;

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int round_up(int a, int b) { return ceil_div(a, b) * b; }
constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int larger(int a, int b) { return a < b ? b : a; }
constexpr int divisor_of(int extent) { return extent % 4 == 0 ? 4 : extent % 2 == 0 ? 2 : 1; }
constexpr unsigned kAllLanes = 0xffffffffu;
inline void wait_for_previous_kernel() {}
inline void allow_next_kernel() {}
// Fewer than on a GPU, so that tests have both: few numbers, and more.
template <int kFeatures>
constexpr bool are_few(int rows) { return rows <= 8192 / kFeatures; }

struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) int2 { int x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
inline float2 make_float2(float x, float y) { return {x, y}; }
template <typename T>
T __ldg(const T* p) { return *p; }
template <typename T>
T __ldcs(const T* p) { return *p; }
template <typename T>
void __stcs(T* p, const T& v) { *p = v; }
inline float __int_as_float(int v) { float f; std::memcpy(&f, &v, 4); return f; }
inline int __float_as_int(float v) { int i; std::memcpy(&i, &v, 4); return i; }
inline float __uint_as_float(unsigned v) { return __int_as_float(static_cast<int>(v)); }
inline unsigned __float_as_uint(float v) { return static_cast<unsigned>(__float_as_int(v)); }
template <typename T>
T atomicMax(T* to, T value) { const T before = *to; *to = max(before, value); return before; }
template <typename T>
T atomicAdd(T* to, T value) { const T before = *to; *to += value; return before; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmul_rz(float a, float b) {
  const double product = static_cast<double>(a) * b;  // exact
  const float near = static_cast<float>(product);
  return std::fabs(near) > std::fabs(product) ? std::nextafter(near, 0.0f) : near;
}
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float exp_approx(float a) { return std::exp(a); }
inline float sigmoid(float a) { return 1.0f / (1.0f + std::exp(-a)); }
constexpr float kLog2E = 1.4426950408889634f;
inline float exp2_approx(float a) { return std::exp2(a); }
inline float reciprocal_approx(float a) { return 1.0f / a; }
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<signed char>(a >> i & 255) * static_cast<signed char>(b >> i & 255);
  return sum;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return result;
}

// Numbers of 16 bits, by their bits.
struct __half2 { uint16_t low, high; };
inline float from_half(uint16_t bits) {
  // With the same exponent and fraction a float is 2^112 times smaller, also where the exponent is 0.
  float size = __uint_as_float((bits & 0x7fffu) << 13) * 0x1p112f;
  if ((bits & 0x7c00) == 0x7c00) size = bits & 1023 ? NAN : INFINITY;
  return bits & 0x8000 ? -size : size;
}
inline uint16_t to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::fabs(value);
  if (size != size) return 0x7fff;
  if (size >= 65520.0f) return sign | 0x7c00;
  const int exponent = size < std::ldexp(1.0f, -14) ? -14 : std::ilogb(size);
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));  // of the last bit, to even
  return sign | static_cast<uint16_t>(steps < 1024 ? steps : ((exponent + 14) << 10) + steps);
}
inline __half2 __floats2half2_rn(float low, float high) { return {to_half(low), to_half(high)}; }
inline float2 __half22float2(__half2 v) { return {from_half(v.low), from_half(v.high)}; }
struct __half { uint16_t bits; };

// bfloat16 is the upper half of a float.
struct __nv_bfloat16 { uint16_t bits; };
struct __nv_bfloat162 { uint16_t low, high; };
inline float from_bfloat16(uint16_t bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
inline uint16_t to_bfloat16(float value) {
  const unsigned bits = __float_as_uint(value);
  return value != value ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // to even
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) { return {to_bfloat16(low), to_bfloat16(high)}; }

alignas(1024) extern thread_local unsigned char shared[232448];

template <typename T, int kCount_>
struct alignas(kCount_ * sizeof(T)) Vector {
  static constexpr int kCount = kCount_;
  T value[kCount];
};
template <int kCount, typename T>
Vector<T, kCount> load_vector(const T* from) {
  if (reinterpret_cast<size_t>(from) % sizeof(Vector<T, kCount>) != 0) std::exit(2);
  return *reinterpret_cast<const Vector<T, kCount>*>(from);
}
template <typename T, int kCount>
void store_vector(T* to, const Vector<T, kCount>& vector) {
  const unsigned char* const bytes = reinterpret_cast<unsigned char*>(to);
  const bool of_shared = bytes >= shared && bytes < shared + sizeof(shared);  // there it stores to global memory
  if (reinterpret_cast<size_t>(to) % sizeof(vector) != 0 || of_shared) std::exit(2);
  *reinterpret_cast<Vector<T, kCount>*>(to) = vector;
}
template <typename T, int kCount>
void store_vector_streaming(T* to, const Vector<T, kCount>& vector) { store_vector(to, vector); }
template <typename T>
using Pack16 = Vector<T, 16 / static_cast<int>(sizeof(T))>;
template <typename T>
Pack16<T> load16(const T* from) { return load_vector<Pack16<T>::kCount>(from); }
template <typename T>
Pack16<T> load16_streaming(const T* from) { return load16(from); }
inline float to_float(float value) { return value; }
inline float to_float(__half value) { return from_half(value.bits); }
inline float to_float(__nv_bfloat16 value) { return from_bfloat16(value.bits); }
inline float max_nan(float a, float b) { return a > b || a != a ? a : b; }
template <typename T>
T from_float(float value) { return value; }
template <>
inline __half from_float<__half>(float value) { return {to_half(value)}; }
template <>
inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) { return {to_bfloat16(value)}; }
inline float lowest() { return __int_as_float(0xff800000); }
template <typename T>
unsigned max_nan_pairs(unsigned a, unsigned b) {
  T pairs[2][2];
  std::memcpy(pairs[0], &a, 4), std::memcpy(pairs[1], &b, 4);
  for (int e = 0; e < 2; ++e) pairs[0][e] = from_float<T>(max_nan(to_float(pairs[0][e]), to_float(pairs[1][e])));
  std::memcpy(&a, pairs[0], 4);
  return a;
}
inline float relu_nan(float value) { return value < 0.0f ? 0.0f : value; }

// ---- fibers ----------------------------------------------------------------------------------------------------------------

struct Index { unsigned x, y; };
inline Index threadIdx, blockIdx, gridDim;
constexpr int kWarpLanes = 32, kSlot = 64;

void __syncthreads();
void __syncwarp();
void wait_for_cluster();
unsigned char* slots_of_warp();  // kSlot bytes for each lane
inline void publish_to_units() {}

// What each lane of the warp gives, to all of them.
template <typename T>
std::array<T, kWarpLanes> everyone(const T& mine) {
  static_assert(sizeof(T) <= kSlot);
  unsigned char* slots = slots_of_warp();
  std::memcpy(slots + threadIdx.x % kWarpLanes * kSlot, &mine, sizeof(T));
  __syncwarp();
  std::array<T, kWarpLanes> result;
  for (int i = 0; i < kWarpLanes; ++i) std::memcpy(&result[i], slots + i * kSlot, sizeof(T));
  __syncwarp();
  return result;
}

template <typename T>
T __shfl_xor_sync(unsigned, T mine, int mask) { return everyone(mine)[threadIdx.x % kWarpLanes ^ mask]; }
inline unsigned __reduce_max_sync(unsigned, unsigned mine) {
  for (unsigned other : everyone(mine)) mine = max(mine, other);
  return mine;
}
inline unsigned warp_max(unsigned mine) { return __reduce_max_sync(kAllLanes, mine); }
inline unsigned __reduce_add_sync(unsigned, unsigned mine) {
  unsigned sum = 0;
  for (unsigned other : everyone(mine)) sum += other;
  return sum;
}
inline unsigned __reduce_or_sync(unsigned, unsigned mine) {
  for (unsigned other : everyone(mine)) mine |= other;
  return mine;
}
inline bool __any_sync(unsigned lanes, bool mine) { return __reduce_or_sync(lanes, mine) != 0; }
inline unsigned __ballot_sync(unsigned, bool mine) {
  unsigned lanes = 0;
  const auto all = everyone(mine);
  for (int i = 0; i < kWarpLanes; ++i) lanes |= static_cast<unsigned>(all[i]) << i;
  return lanes;
}
template <typename T>
T __shfl_sync(unsigned, T mine, int lane) { return everyone(mine)[lane % kWarpLanes]; }
template <typename T>
T __shfl_up_sync(unsigned, T mine, int offset) {
  const int lane = threadIdx.x % kWarpLanes;
  return everyone(mine)[lane < offset ? lane : lane - offset];
}

// Adds kCount sums over 2 * kOffset neighbouring lanes, as plugins/common.cuh shares the totals out.
template <int kCount, int kOffset>
int exchange_sums(float* sums, int lane) {
  constexpr int kLanes = 2 * kOffset, kKept = kCount > kLanes ? kCount / kLanes : 1;
  const int first = kCount > kLanes ? lane % kLanes * kKept : lane % kLanes / (kLanes / kCount);
  float totals[kCount];
  for (int i = 0; i < kCount; ++i) {
    const auto all = everyone(sums[i]);
    totals[i] = 0.0f;
    for (int other = 0; other < kLanes; ++other) totals[i] += all[lane / kLanes * kLanes + other];
  }
  for (int i = 0; i < kKept; ++i) sums[i] = totals[first + i];
  return first;
}

// Calls `kernel` for each thread of each block, which has `shared_bytes` of shared memory; `in_cluster` blocks are a cluster.
void launch_captured(int blocks_x, int blocks_y, int threads, int shared_bytes, int in_cluster, void (*kernel)(const void*), const void* captured);
template <typename Kernel>
void launch(int blocks_x, int blocks_y, int threads, int shared_bytes, int in_cluster, const Kernel& kernel) {
  const auto call = [](const void* captured) { (*static_cast<const Kernel*>(captured))(); };
  launch_captured(blocks_x, blocks_y, threads, shared_bytes, in_cluster, call, &kernel);
}

// The arrays of a launch, which last as long as the program.
void* read(const char* path);
void* unwritten(size_t bytes);
void write(const char* path, const void* from, size_t bytes);

inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(pointer) - shared + (1 << 30));
}
inline unsigned char* at_address(unsigned address) { return shared + (static_cast<long>(address) - (1 << 30)); }
