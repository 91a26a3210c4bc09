// A cluster of thread blocks on the CPU: every thread of CUDA is a thread of the host. Slow, and enough to run a kernel's source.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define ASSERT_LAUNCH(...) static_assert(true)
#define ASSERT_LAUNCH_WHERE(...) static_assert(true)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

struct Gate {  // a barrier that any number of threads passes together; it says whether one of them came with true
  std::mutex mutex;
  std::condition_variable moved;
  int waiting = 0;
  unsigned generation = 0;
  bool seen = false, said = false;

  bool pass(int count, bool mine = false) {
    std::unique_lock lock(mutex);
    seen |= mine;
    if (++waiting == count) {
      said = seen, seen = false, waiting = 0, ++generation;
      moved.notify_all();
      return said;
    }
    const unsigned mine_was = generation;
    moved.wait(lock, [&] { return generation != mine_was; });
    return said;
  }
};

struct Counter {  // an mbarrier of one arrival
  int pending = 1, bytes = 0;
  unsigned phase = 0;
};

struct Block {
  alignas(64) unsigned char memory[64 * 1024];
  Gate gates[16], warps[32];
  float exchanged[32][32];
  std::mutex mutex;
  std::map<unsigned, Counter> counters;
};

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks;
  std::mutex mutex;
  std::condition_variable moved;
  unsigned arrived = 0, generation = 0, threads = 0;
};

struct Place {
  unsigned x;
};

inline Cluster* cluster;
inline thread_local Place threadIdx, blockIdx;
inline Place gridDim;
inline thread_local unsigned allocated, awaited;

inline Block& block() { return *cluster->blocks[blockIdx.x]; }

template <typename T>
T& shared() {  // the next variable in shared memory: each thread asks for them in the same order
  allocated = (allocated + 63) / 64 * 64;
  T* const found = reinterpret_cast<T*>(block().memory + allocated);
  allocated += sizeof(T);
  return *found;
}

inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(pointer) - block().memory);
}

inline void __syncthreads() { block().gates[0].pass(512); }
inline void __syncwarp() { block().warps[threadIdx.x / 32].pass(32); }
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __nanosleep(unsigned) { sched_yield(); }
inline float __shfl_xor_sync(unsigned, float value, int offset) {
  float(&values)[32] = block().exchanged[threadIdx.x / 32];
  values[threadIdx.x % 32] = value;
  __syncwarp();
  const float found = values[threadIdx.x % 32 ^ offset];
  __syncwarp();
  return found;
}
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// ---- common.cuh ----
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr unsigned kAllLanes = 0xffffffffu;
inline float to_float(float value) { return value; }
template <typename T>
inline T from_float(float value) {
  return value;
}
inline float max_nan(float a, float b) { return (a > b || a != a) ? a : b; }
inline float relu_nan(float value) { return max_nan(value, 0.0f); }

// ---- cluster.cuh ----
namespace lenet5 {

constexpr unsigned kRankShift = 24;

inline unsigned remote_address(unsigned local, unsigned rank) { return local | (rank + 1) << kRankShift; }
inline Block& block_of(unsigned address) {
  const unsigned rank = address >> kRankShift;
  return rank ? *cluster->blocks[rank - 1] : block();
}
inline void count(Counter& counter, int arrivals, int bytes) {
  counter.pending -= arrivals, counter.bytes += bytes;
  if (counter.pending == 0 && counter.bytes == 0) counter.pending = 1, ++counter.phase;
}
inline void expect_bytes(unsigned barrier, unsigned bytes) {
  std::lock_guard lock(block().mutex);
  count(block().counters.at(barrier), 1, bytes);
}
inline void begin_barrier(unsigned barrier, unsigned bytes) {
  {
    std::lock_guard lock(block().mutex);
    block().counters[barrier] = Counter();
  }
  expect_bytes(barrier, bytes);
}
inline void wait_bytes(unsigned barrier, unsigned parity = 0) {
  while (true) {
    {
      std::lock_guard lock(block().mutex);
      if ((block().counters.at(barrier).phase & 1) != parity) return;
    }
    sched_yield();
  }
}
inline void push(unsigned remote, float value, unsigned remote_barrier) {
  Block& to = block_of(remote);
  const unsigned mask = (1u << kRankShift) - 1;
  std::lock_guard lock(to.mutex);
  std::memcpy(to.memory + (remote & mask), &value, sizeof(value));
  count(to.counters.at(remote_barrier & mask), 0, -static_cast<int>(sizeof(value)));
}
inline void push4(unsigned remote, float4 value, unsigned remote_barrier) {
  for (const float each : {value.x, value.y, value.z, value.w}) {
    push(remote, each, remote_barrier);
    remote += sizeof(float);
  }
}
inline void cluster_arrive_relaxed() {
  std::lock_guard lock(cluster->mutex);
  awaited = cluster->generation;
  if (++cluster->arrived == cluster->threads) {
    cluster->arrived = 0, ++cluster->generation;
    cluster->moved.notify_all();
  }
}
inline void cluster_wait() {
  std::unique_lock lock(cluster->mutex);
  cluster->moved.wait(lock, [] { return cluster->generation != awaited; });
}
template <int kBarrier>
inline void block_wait(int threads) {
  block().gates[kBarrier].pass(threads);
}

// ---- ring.cuh: how the host's memory is read and written ----
inline unsigned long long nanoseconds() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
inline unsigned host_word(const unsigned* address) { return *const_cast<const volatile unsigned*>(address); }
template <int kWords>
inline void host_words(unsigned (&word)[kWords], const void* address) {
  for (int i = 0; i < kWords; ++i) word[i] = host_word(static_cast<const unsigned*>(address) + i);
  sched_yield();
}
template <int kBarrier, int kThreads>
inline bool any_of(bool mine) {
  return block().gates[kBarrier].pass(kThreads, mine);
}
inline void host_store(float* address, float value) { *const_cast<volatile float*>(address) = value; }

}  // namespace lenet5
