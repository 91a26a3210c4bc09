// softmax (see kernel.cu) of short rows whose length is no multiple of 16 bytes: a block copies whole rows into shared memory.
//
// x [rows, K] -> y [rows, K].
//
// Mapping: rows that follow each other are one run of bytes, which a block moves 16 bytes at a time whatever their length is:
// by the bulk copy engine on sm_90 and newer, by its threads elsewhere. Lanes share a row as in lanes.cuh and write the result
// over it, and the run goes back in the same way. kRows is a multiple of 8, so each run begins at a multiple of 16 bytes.
// Bytes: x and y once.
#include "bulk.cuh"
#include "softmax/lanes.cuh"

namespace softmax {

#if __CUDA_ARCH__ >= 900

// Copies `bytes` bytes, a multiple of 16, from shared memory, and waits until they have been read there.
__device__ __forceinline__ void write_back(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

#endif

constexpr int kThreads = 128;
constexpr int kLanes = 8;
constexpr int kGroups = kThreads / kLanes;
constexpr int kRowBytes = kLength * static_cast<int>(sizeof(T));
constexpr int kRounds = 64 * kLanes / kRowBytes > 1 ? 64 * kLanes / kRowBytes : 1;  // rows of a group
constexpr int kRows = kGroups * kRounds;
constexpr int kBytes = kRows * kRowBytes;
static_assert(kRows % 8 == 0, "a run must begin at a multiple of 16 bytes");

__device__ __forceinline__ void tile_of_rows(const T* __restrict__ x, unsigned rows, T* __restrict__ y) {
  constexpr int kPack = Pack16<T>::kCount;
  extern __shared__ uint4 memory[];
  T* const tile = reinterpret_cast<T*>(memory);
  const unsigned first = blockIdx.x * kRows, count = min(rows - first, static_cast<unsigned>(kRows));
  const int elements = count * kLength, packed = elements / kPack * kPack;  // of the last run, a few elements remain
  const T* const from = x + static_cast<size_t>(first) * kLength;
  T* const to = y + static_cast<size_t>(first) * kLength;
  const int rest = packed + threadIdx.x;
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(8) unsigned long long barrier;
  if (threadIdx.x == 0 && packed > 0) {
    const unsigned bytes = packed * sizeof(T), of_barrier = shared_address(&barrier);
    init_barrier(of_barrier);
    publish_to_units();
    expect_bytes(of_barrier, bytes);
    begin_bulk_copy(shared_address(tile), from, bytes, of_barrier);
  }
  if (rest < elements) tile[rest] = from[rest];
  __syncthreads();  // the barrier is initialised
  if (packed > 0) wait_for_bytes(shared_address(&barrier));
#else
#pragma unroll 4
  for (int i = threadIdx.x * kPack; i < packed; i += kThreads * kPack) {
    *reinterpret_cast<uint4*>(tile + i) = *reinterpret_cast<const uint4*>(from + i);
  }
  if (rest < elements) tile[rest] = from[rest];
  __syncthreads();
#endif

  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round) {
    T* const row = tile + (round * kGroups + group) * kLength;  // past the last row there is memory, and nobody's data
    LaneRow<kLanes> values(row, lane);
    values.compute(lane, [&](int element, const Vector<T, kWidth>& vector) {
      *reinterpret_cast<Vector<T, kWidth>*>(row + element) = vector;
    });
  }

#if __CUDA_ARCH__ >= 900
  publish_to_units();
  __syncthreads();
  if (rest < elements) to[rest] = tile[rest];
  if (threadIdx.x == 0 && packed > 0) write_back(to, tile, packed * sizeof(T));
#else
  __syncthreads();
#pragma unroll 4
  for (int i = threadIdx.x * kPack; i < packed; i += kThreads * kPack) {
    *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<const uint4*>(tile + i);
  }
  if (rest < elements) to[rest] = tile[rest];
#endif
}

}  // namespace softmax

using softmax::T;
ASSERT_LAUNCH(softmax_tile, softmax::kThreads, softmax::kBytes);

extern "C" __global__ void __launch_bounds__(softmax::kThreads)
    softmax_tile(const T* __restrict__ x, int rows, T* __restrict__ y) {
  wait_for_previous_kernel();
  softmax::tile_of_rows(x, rows, y);
}
